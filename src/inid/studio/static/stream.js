"use strict";
// Streams that are there: showing one, and releasing its next period. A new one is planned and opened by studio.js.

const streamBody = () => ({ stream: find("stream").value, ledger: find("ledger").value, level: find("stream-level").value, first: find("first").value, last: find("last").value });

let toRelease = null; // what the open dialog names, and nothing else

function putStream(answer) {
  put(answer.html);
  options(find("period"), answer.periods);
  for (const id of ["first", "last"]) options(find(id), answer.released, "all");
  find("period").value = answer.next ?? answer.periods[answer.periods.length - 1];
  find("ask-period").disabled = answer.next === null;
}

async function showStream() {
  outdate("stream");
  show();
  if (!isThere()) return changed();
  history.replaceState(null, "", `#${encodeURIComponent(find("stream").value)}`);
  find("ledger-part").replaceChildren(); // what a plan would spend is not what this stream spent
  openCard(stepCard("who")); // where its next period is released
  if (Boolean(find("first").value) !== Boolean(find("last").value)) return; // a window is half chosen
  find("ask-period").disabled = true; // until it is known which period comes next
  try {
    const answer = await newest("stream", "stream-show", streamBody());
    if (!answer) return;
    putStream(answer);
    say("period-error", "");
  } catch (error) {
    put({ stream: "", numbers: "" });
    say("period-error", error.message);
  }
  document.body.dataset.state = "shown";
}

async function chooseStream() {
  for (const id of ["first", "last"]) options(find(id), [], "all");
  find("period-empty").checked = false;
  find("period-rows").value = "";
  await showStream();
}

// True where what changed is about a stream that is there: then nothing is planned.
function changedStream(id) {
  if (id === "stream") chooseStream();
  else if (["first", "last", "stream-level"].includes(id) || (id === "ledger" && isThere())) showStream();
  return ["stream", "first", "last", "stream-level", "period", "period-rows", "period-empty"].includes(id) || isThere();
}

function askPeriod() {
  const [rows, empty, period] = [find("period-rows").value, find("period-empty").checked, find("period").value];
  if (Boolean(rows) === empty) return say("period-error", "Choose the file with the period's rows, or say that it has none.");
  say("period-error", "");
  say("period-progress", "");
  toRelease = { ...streamBody(), first: "", last: "", period, rows, empty };
  const from = empty ? "without rows" : `from the rows of ${rows}`;
  const ledger = toRelease.ledger ? `under the ledger ${toRelease.ledger}` : "without a ledger";
  find("period-words").textContent = `${period} of ${toRelease.stream} is released once, ${from}, ${ledger}. Nothing more is charged, and its numbers never change.`;
  find("do-period").disabled = false;
  find("period-confirm").showModal();
  find("period-cancel").focus();
}

async function releasePeriod() {
  find("do-period").disabled = true;
  say("period-progress", "Summing and adding noise …");
  try {
    outdate("stream"); // what was asked before the release knows nothing of it
    putStream(await ask("stream-period", toRelease));
    for (const id of ["first", "last"]) find(id).value = "";
    find("period-rows").value = "";
    find("period-empty").checked = false;
    find("there").focus();
  } catch (error) {
    await showStream(); // a row that was lost is seen
    say("period-error", error instanceof TypeError ? "The studio did not answer. Start it again and ask for the period again: its numbers are shown if it was released." : error.message);
  }
  find("period-confirm").close();
}

async function showOpened(name) {
  await chooseFiles();
  sessionStorage.removeItem(draftKey);
  find("stream").value = name;
  await chooseStream();
  find("there").focus();
  find("there").scrollIntoView({ block: "start" });
}

async function beginStream() {
  const asked = decodeURIComponent(location.hash.slice(1));
  if (asked && [...find("stream").options].some((option) => option.value === asked)) find("stream").value = asked;
  if (isThere()) await showStream();
}

const periodActions = { "ask-period": askPeriod, "do-period": releasePeriod, "period-cancel": () => find("period-confirm").close() };
