"use strict";
// What is asked of the server, and putting the answers in place. All figures, charts and sentences are the server's; every text of the user's that is put into the page here goes in as text, never as HTML.

const tab = Math.random().toString(36).slice(2);
const draftKey = `inid-draft-${page}`;
const releasedKey = "inid-released"; // the form of the last release: that there is no room for a second is no failure

const own = (what) => (page === "stream" ? `stream-${what}` : what); // a stream is planned and opened by addresses of its own

// Whether the columns on the page are those of the newest question; `beforehand` is called before they are put there.
async function loadColumns(computed = [], beforehand = () => {}) {
  const table = find("table").value;
  if (!table) showFile(null);
  const shown = (isShown) => { beforehand(); for (const part of form.querySelectorAll(".needs-table")) part.hidden = !isShown; };
  if (!table) { outdate("columns"); shown(false); return true; }
  try {
    const answer = await newest("columns", "columns", { table, computed, file: page === "explore" ? {} : fileFacts() });
    if (!answer) return false;
    showFile(answer);
    if (answer.separators) { shown(false); say("error", ""); return true; }
    shown(true);
    columnNames = answer.names;
    columnKinds = Object.assign(empty(), answer.kinds);
    picked = new Set([...picked].filter((name) => columnNames.includes(name)));
    find("columns").innerHTML = answer.html;
    columnParts = answer;
    for (const select of form.querySelectorAll(".column-choice")) options(select, columnNames, select.dataset.first);
    say("error", "");
  } catch (error) {
    shown(false);
    say("error", error.message);
  }
  return true;
}

// What the fields hold, the lists and fill values that no question needs now among it.
function snapshot() {
  const fills = [...form.querySelectorAll("[data-kind=fill]")].filter((field) => field.value.trim()).map((field) => [field.dataset.column, field.value.trim()]);
  const [picks, unit] = [[...picked], form.elements.unit.value];
  return { values: collect(), lists: Object.fromEntries(listed().map((name) => [name, listOf(name)])), fills: Object.fromEntries(fills), picks, unit };
}

const coming = empty(); // lists of columns that are computed just now

// The names of columns that are computed, and of features of a person.
const madeColumns = (values) => Object.keys({ ...values.derive, ...values.per_person });

async function computedChanged(more = {}) {
  Object.assign(coming, more);
  await filling(async () => {
    let held = null; // as the fields are when the answer is there: what is chosen meanwhile, a ledger say, stays
    if (!(await loadColumns(madeColumns(collect()), () => { held = snapshot(); }))) return;
    fill(held.values, Object.assign(empty(), held.lists, coming), held.fills);
    for (const name of Object.keys(coming)) delete coming[name];
  });
}

// The names of the ledgers in the chosen file; a file that is still to be made has none.
async function loadNames() {
  const ledger = find("ledger").value;
  let answer = { names: [] };
  outdate("names");
  try {
    if (ledger && page !== "explore") answer = await newest("names", "ledger-names", { ledger });
  } catch {
    // The plan says what is wrong with the ledger.
  }
  if (!answer) return;
  const others = answer.names.filter((name) => name !== "default");
  const before = find("name").value;
  options(find("name"), others, "default");
  find("name-box").hidden = !others.length;
  if (others.includes(before)) find("name").value = before;
  else if (others.length && !answer.names.includes("default")) find("name").value = others[0];
}

// Planning: the newest form wins, and nothing waits for an answer that is no longer wanted.

let wanted = 0;
let answered = 0;
let planning = false;
let later = 0;
let changedAt = 0;
let planFailed = false;

function changed() {
  changedAt = performance.now();
  show();
  if (!isThere()) sessionStorage.setItem(draftKey, JSON.stringify(page === "explore" ? { values: collect() } : snapshot()));
  wanted += 1;
  document.body.dataset.state = "planning";
  if (!planning) plan();
}

async function plan() {
  planning = true;
  clearTimeout(later);
  const slow = setTimeout(() => { if (isAsked(collect())) say("status", "Planning …"); }, 400);
  while (answered !== wanted) {
    answered = wanted;
    const started = changedAt;
    const values = collect();
    const isReady = isAsked(values) && (page === "explore" || (form.elements.unit.value && !missingLimits().length));
    const answer = isReady ? await planOnce(values) : null;
    if (!isReady) clearPlan(isAsked(values) ? "Something is missing yet." :emptyQuestion(values) ? "One question is empty yet." : "Nothing is asked yet.");
    if (find("ask-release")) {
      const unpaid = answer && !answer.refusal && !values.ledger ? "Choose a ledger first: it keeps count of the privacy cost of all releases." : "";
      find("ask-release").disabled = Boolean(unpaid) || (!answer?.affordable && !answer?.again);
      say("release-reason", answer ? answer.refusal || unpaid : find("error").textContent || find("status").textContent);
    }
    if (answer && answer.html) {
      await new Promise((done) => { requestAnimationFrame(done); setTimeout(done, 100); }); // nobody draws a tab behind others
      performance.measure("plan", { start: started, end: performance.now() });
      if (answered === wanted) later = setTimeout(details, 300, values, answered); // else these values are old
    }
    if (answered === wanted) guide(values, answer);
    if (answered === wanted && !fillings) document.body.dataset.state = answer ? "planned" : "waiting";
  }
  clearTimeout(slow);
  planning = false;
}

// The figures of another question are not this one's.
function clearPlan(status) {
  find("results").hidden = true;
  find("preview-part")?.replaceChildren(made("p", { class: "note" }, "It appears here as soon as something is asked, with the range that noise leaves to each number."));
  find("ledger-part")?.replaceChildren();
  if (planFailed) say("error", ""); // what is wrong with the files stays
  planFailed = false;
  say("status", status);
}

async function planOnce(values) {
  const again = JSON.stringify(values) === sessionStorage.getItem(releasedKey);
  try {
    if (unfinished(false)) throw new Error(unfinished(false));
    const answer = await ask(own("plan"), { form: values, tab, again });
    answer.again = again;
    put(answer.html);
    find("results").hidden = false;
    say("error", "");
    say("status", "");
    planFailed = false;
    find("plan").classList.remove("stale");
    return answer;
  } catch (error) {
    if (again) { clearPlan(""); return { affordable: false, again, refusal: "" }; } // said to whoever tries it
    say("error", error.message);
    planFailed = true;
    say("status", "");
    find("plan").classList.add("stale");
    return null;
  }
}

async function details(values, turn) {
  try {
    const answer = await ask(own("details"), { form: values, tab, turn });
    if (turn === wanted) {
      put(answer.html);
      document.body.dataset.detailed = String(turn);
    }
  } catch {
    // The plan itself says what is wrong.
  }
}

// Releasing: one token, one charge.

let token = "";
let prepared = "";
const CHANGED = "The form has changed meanwhile, so nothing is released: look at it, and press the button again.";

async function prepare() {
  const values = JSON.stringify(collect()); // what is on the page now, and nothing else
  await answering("release-error", async () => {
    await settled();
    if (JSON.stringify(collect()) !== values) throw new Error(CHANGED);
    if (unfinished(true)) throw new Error(unfinished(true));
    const answer = await newest("release", own("prepare"), { form: JSON.parse(values) });
    if (!answer || find("confirm").open) return; // what is being read stays, and is what is released
    if (JSON.stringify(collect()) !== values) throw new Error(CHANGED);
    prepared = values;
    token = answer.token;
    put({ spending: answer.html });
    say("progress", "");
    find("do-release").disabled = false;
    find("confirm").showModal();
    find("cancel").focus();
  });
}

async function release() {
  if (prepared && JSON.stringify(collect()) !== prepared) { find("confirm").close(); return say("release-error", CHANGED); }
  find("do-release").disabled = true;
  say("progress", page === "stream" ? "Making the file, then charging the ledger …" : "Charging the ledger, then reading the table …");
  if (page === "table") history.replaceState(null, "", `#${token}`);
  try {
    const answer = await ask(own("release"), page === "stream" ? { form: JSON.parse(prepared) } : { token });
    if (answer.state === "done") sessionStorage.setItem(releasedKey, prepared);
    find("confirm").close(); // before anything else is waited for: what is typed from now on must arrive
    await (page === "stream" ? showOpened(answer.token) : showOutcome(answer));
  } catch (error) {
    find("confirm").close();
    const lost = error instanceof TypeError; // the server is gone
    say("release-error", lost ? "The studio did not answer. If it was charged, the charge stands: start it again and look under Earlier releases." : error.message);
  }
}

async function showOutcome(answer) {
  outdate("outcome");
  find("outcome").innerHTML = answer.html;
  say("release-error", "");
  find("outcome").focus();
  find("outcome").scrollIntoView({ block: "start" });
  if (page === "table") changed();
  await listReleases();
}

async function showEarlier(earlier) {
  await answering("release-error", async () => {
    history.replaceState(null, "", `#${earlier}`);
    const answer = await newest("outcome", "released", { token: earlier });
    if (answer) await showOutcome(answer);
  });
}

async function listReleases() {
  const answer = await newest("releases", "releases");
  if (!answer) return;
  put({ releases: answer.html });
  find("earlier").open ||= answer.html.includes("earlier charged");
}

async function makeLedger() {
  const before = find("ledger").value;
  const values = { ledger: find("ledger-file").value };
  for (const name of ["name", "epsilon", "delta", "unit", "reserve"]) values[name] = find(`ledger-${name}`).value;
  values.unit ||= form.elements.unit.value === "person" ? form.querySelector("[data-key=person]").value : ""; // the ledger counts whom the table protects
  values.currency = values.delta.trim() ? find("ledger-currency").value : "";
  find("make-ledger").disabled = true;
  await answering("ledger-error", () => filling(async () => {
    const answer = await ask("ledger", values);
    await chooseFiles();
    find("new-ledger").open = false;
    if (find("ledger").value !== before) return; // another one was chosen meanwhile
    find("ledger").value = answer.ledger;
    await loadNames();
    if (find("ledger").value === answer.ledger) find("name").value = answer.name === "default" ? "" : answer.name;
    find("ledger").focus();
  }));
  find("make-ledger").disabled = false;
}

async function chooseFiles() {
  const start = await ask("start");
  find("where").textContent = start.folder;
  find("demo").hidden = !start.demo;
  if (page !== "explore") {
    options(find("table"), start.tables, "Choose a file");
    options(find("ledger"), start.ledgers, "Choose a ledger");
    find("new-ledger").open ||= !start.ledgers.length;
  }
  if (page === "stream") {
    options(find("stream"), start.streams, "A new one");
    options(find("period-rows"), start.tables, "Choose a file");
  }
  return start;
}

// Beginning.

form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("input", (event) => {
  const { id, dataset, classList } = event.target;
  if (event.target.closest("#outcome")) return; // how many rows are made is no part of a job
  if (event.target.closest("dialog")) { if (id.startsWith("bands-")) previewBands(); return; }
  if (dataset.ask) clearPlan("");
  if (dataset.what) tickTable(event.target);
  if (dataset.takesPart) tickColumn(event.target);
  if (dataset.key === "bins") dataset.touched = "yes";
  if (classList.contains("question-name")) delete event.target.closest(".question").dataset.unnamed;
  if (dataset.pick !== undefined) pickColumn(dataset.pick, event.target.checked);
  if (dataset.key === "bounds" && event.target.value.trim()) setType(dataset.column, "number");
  if (dataset.limit) limits.set(dataset.limit, event.target.value.trim());
  if (classList.contains("list")) clearHeld(dataset.column);
  if (id === "size") find(find("promise").value.split(" ")[0]).value = String(Number((10 ** (event.target.value / 100)).toPrecision(3)));
  if (id === "pick") showPicks();
  else if (page === "stream" && changedStream(id)) return;
  else if (id === "table") { picked.clear(); for (const key of fileKeys) find(key).value = ""; computedChanged(); }
  else if (fileKeys.includes(id)) computedChanged();
  else if (id === "ledger") filling(loadNames);
  else if (id === "preset") { find("numbers").replaceChildren(); (presets[event.target.value] || [["", "", ""]]).forEach((row) => addNumber(...row)); changed(); }
  else if (id.startsWith("ledger-")) showLists();
  else changed();
});
form.addEventListener("change", async (event) => {
  if (["derive", "per_person"].includes(event.target.dataset.key)) await computedChanged();
  if (event.target.id === "list-file") await bringList();
});
form.addEventListener("click", async (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  const { classList, dataset } = button;
  if (classList.contains("card-head")) { const card = button.closest(".card"); openCard(card, card.classList.contains("folded")); }
  if (classList.contains("add")) addPair(button.parentElement).focus();
  if (classList.contains("add-table")) { addTable(button.closest(".question")); changed(); button.parentElement.querySelector(".one-table:last-child input").focus(); }
  if (classList.contains("remove-question")) removeQuestion(button.closest(".question"));
  if (classList.contains("edit-list")) openList(dataset.column);
  if (classList.contains("make-bands")) openBands(button);
  if (classList.contains("show")) await showEarlier(dataset.token);
  if (classList.contains("copy")) { await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent); button.textContent = "Copied"; }
  const actions = { "make-ledger": makeLedger, "ask-release": prepare, "do-release": release, "add-number": () => addNumber().focus(), "add-question": anotherQuestion, cancel: () => find("confirm").close(), "leave-out": () => { kept = empty(); showKept(); changed(); }, ...listActions, ...pickActions, ...guideActions, ...rowActions, ...(page === "stream" ? periodActions : {}) };
  if (Object.hasOwn(actions, button.id)) actions[button.id]();
});
form.addEventListener("keydown", (event) => {
  if (event.target.id === "pick" && event.key === "Enter" && !event.shiftKey) { event.preventDefault(); addLines(); }
});
addEventListener("focus", () => { if (document.body.dataset.ready) changed(); }); // another tab may have charged

// Nothing can be changed before everything is filled in: it would be written over.
async function begin() {
  form.inert = true;
  try {
    const start = await chooseFiles();
    const draft = JSON.parse(sessionStorage.getItem(draftKey) || "null");
    const { values, lists, fills, picks, unit } = draft ?? { values: page !== "explore" ? start.form : {} };
    if (page !== "explore") {
      find("table").value = values.table || "";
      for (const key of fileKeys) find(key).value = values[key] || "";
      await loadColumns(madeColumns(values));
      for (const name of picks ?? []) if (columnNames.includes(name)) pickColumn(name);
      if (unit || asksSomething(values) || values.question) form.elements.unit.value = unit || "row"; // a job of a file protects rows, or names a person
      fill(values, lists, fills);
      keep(values);
      await loadNames();
    } else if (draft) fill(values); // the explorer has a field for everything that it drafts
    else { presets.first.forEach((row) => addNumber(...row)); find("preset").value = "first"; show(); }
    form.inert = false;
    if (page === "stream") await beginStream();
    if (page === "table") await beginReleases();
  } catch (error) {
    say("error", error.message);
  }
  form.inert = false;
  document.body.dataset.ready = "yes";
  changed();
}

async function beginReleases() {
  await listReleases();
  const asked = location.hash.slice(1);
  const answer = /^[0-9a-f]{20}$/.test(asked) ? await newest("outcome", "released", { token: asked }) : null;
  if (answer) find("outcome").innerHTML = answer.html;
}

begin();
