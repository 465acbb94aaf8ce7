"use strict";
// Rows like the table's: which columns take part, in which bins; and making rows of what was released.

const binsOf = (card, name) => [...card.querySelectorAll("[data-key=bins]")].find((one) => one.dataset.column === name);
const usualBins = "10";

// All columns that can take part, where none were left out; else those that are named.
const usableColumns = (card) => columnNames.filter((name) => picked.has(name)).filter((name) => listOf(name) || binsOf(card, name)?.value.trim());
const namedColumns = (card) => JSON.parse(card.dataset.takesPart || "null");
const rowColumns = (card) => (namedColumns(card) ?? usableColumns(card)).filter((name) => usableColumns(card).includes(name));

function fillRows(card, values) {
  card.dataset.takesPart = Array.isArray(values.synthetic_columns) ? JSON.stringify(values.synthetic_columns) : "";
  if (values.synthetic) for (const field of card.querySelectorAll("[data-key=bins]")) field.dataset.touched = "yes";
}

function askRows(card, values) {
  const columns = rowColumns(card);
  if (columns.length) values.synthetic = true;
  if (columns.length && namedColumns(card)) values.synthetic_columns = columns;
  return values;
}

function tickColumn(tick) {
  const card = tick.closest(".question");
  const name = tick.dataset.takesPart;
  const rest = rowColumns(card).filter((one) => one !== name);
  const now = tick.checked ? [...rest, name] : rest;
  card.dataset.takesPart = now.length === usableColumns(card).length ? "" : JSON.stringify(now);
}

function showRows(card) {
  if (askOf(card) !== "synthetic") return;
  for (const box of card.querySelectorAll(".bins-box")) {
    const field = box.querySelector("input");
    box.hidden = Boolean(listOf(field.dataset.column)); // it has public values
    if (!field.dataset.touched && !field.value && limitsOf(field.dataset.column)) field.value = usualBins;
  }
  const [usable, own] = [usableColumns(card), rowColumns(card)];
  for (const tick of card.querySelectorAll("[data-takes-part]")) {
    tick.disabled = !usable.includes(tick.dataset.takesPart);
    tick.checked = own.includes(tick.dataset.takesPart);
  }
}

// What keeps rows from being asked for beside other questions.
function unfinishedRows() {
  const asking = cards().filter((card) => askOf(card) === "synthetic");
  if (asking.length > 1) return "Two questions ask for rows: one of them is enough.";
  const share = asking[0]?.querySelector("[data-key=share]");
  if (cards().length > 1 && asking.length && !share.value.trim()) return `Synthetic rows have no expected error from which their part of the promise could follow: state which share of it the question “${nameOf(asking[0])}” takes, such as 1/2.`;
  return "";
}

// Making rows: seconds or minutes, which can be stopped; what was released stays.

async function makeRows() {
  const { token } = find("make-rows").dataset;
  const isShown = () => find("make-rows")?.dataset.token === token;
  const working = (isWorking) => {
    if (!isShown()) return;
    find("make-rows").disabled = isWorking;
    find("stop-rows").hidden = find("rows-done").hidden = !isWorking;
    find("rows-done").value = 0;
  };
  working(true);
  say("rows-said", "Making rows …");
  const looking = setInterval(async () => {
    const answer = await newest("rows-state", "rows-state", { token }).catch(() => null);
    if (answer && isShown()) find("rows-done").value = answer.part;
  }, 400);
  try {
    const answer = await ask("rows", { token, number: find("rows-number").value });
    if (isShown()) { say("rows-said", answer.text); find("rows-file").hidden = !answer.there; }
    if (isShown() && answer.there) find("rows-file").querySelector("a").focus();
  } catch (error) {
    if (isShown()) say("rows-said", error.message);
  }
  clearInterval(looking);
  outdate("rows-state");
  working(false);
}

const rowActions = { "make-rows": makeRows, "stop-rows": () => ask("rows-stop", { token: find("make-rows").dataset.token }).catch(() => null) };
