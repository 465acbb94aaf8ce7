"use strict";
// The page's one script: it collects the form, asks the server, and puts the answers in place. All figures, charts and
// sentences are the server's; every text of the user's that is put into the page here goes in as text, never as HTML.

const page = document.body.dataset.page;
const form = document.getElementById("form");
const find = (id) => document.getElementById(id);
const tab = Math.random().toString(36).slice(2);
const draftKey = `inid-draft-${page}`;
let columnNames = [];

async function ask(what, body = {}) {
  const answer = await fetch(`/api/${what}`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-inid-key": localStorage.getItem("inid-key") || "" },
    body: JSON.stringify(body),
  });
  if (answer.status === 403 || answer.status === 421) {
    find("closed").hidden = false;
    throw new Error("This page belongs to a studio that has stopped. Open the link that the new one printed.");
  }
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.error);
  return content;
}

function say(id, text) {
  const place = find(id);
  place.textContent = text;
  place.hidden = !text;
}

function put(parts) {
  for (const [name, html] of Object.entries(parts)) {
    const place = find(`${name}-part`);
    if (place) place.innerHTML = html;
  }
}

function made(tag, attributes = {}, ...inner) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...inner);
  return element;
}

function options(select, names, first) {
  const before = select.value;
  select.replaceChildren(...(first === undefined ? [] : [new Option(first, "")]));
  for (const name of names) select.append(typeof name === "string" ? new Option(name, name) : new Option(name.shown, name.name));
  if ([...select.options].some((option) => option.value === before)) select.value = before;
}

// The form as the keys of a job.

const empty = () => Object.create(null); // a column may be named __proto__

function collect() {
  const values = empty();
  for (const field of form.querySelectorAll("[data-key]")) {
    if (field.closest("[hidden]")) continue;
    const { key, kind, column } = field.dataset;
    const text = (field.value || "").trim();
    if (kind === "text" && text) values[key] = text;
    if (kind === "switch" && field.checked) values[key] = true;
    if (kind === "name" && field.checked) (values[key] ??= []).push(column);
    if (kind === "tables" && text) values[key] = tablesOf(text);
    if (kind === "formulas" && text) values[key] = formulasOf(text);
    if ((kind === "low" || kind === "high") && text) ((values[key] ??= empty())[column] ??= ["", ""])[kind === "low" ? 0 : 1] = text;
    if (kind === "entry" && text && isNeeded(field)) (values[key] ??= empty())[column] = text;
  }
  for (const row of form.querySelectorAll(".pair")) {
    if (row.closest("[hidden]")) continue;
    const [column, text] = [row.querySelector("select").value, row.querySelector("textarea").value.trim()];
    if (column && text) (values[row.dataset.pair] ??= empty())[column] = text;
  }
  if (page === "explore") collectNumbers(values);
  return values;
}

function isNeeded(field) {
  const { needs } = field.dataset;
  if (needs === "count") return find("count").checked;
  if (needs === "row") return field.closest("tr").querySelector("[data-kind=name]:checked") !== null;
  return true;
}

function tablesOf(text) {
  if (/^\d+$/.test(text)) return Number(text);
  return text.split("\n").map((line) => line.split(",").map((name) => name.trim()).filter(Boolean)).filter((line) => line.length);
}

function formulasOf(text) {
  const found = empty();
  for (const line of text.split("\n").filter((one) => one.trim())) {
    const [, name, formula] = /^([^=]*)=?(.*)$/.exec(line);
    found[name.trim()] = formula.trim();
  }
  return found;
}

function isAsked(values) {
  if (page === "explore") return values.sensitivity !== undefined;
  const keys = ["count", "mean", "sum", "std", "variance", "covariance", "histogram", "marginals"];
  return Boolean(values.table) && keys.some((key) => values[key] !== undefined);
}

function fill(values) {
  if (values.person) form.elements.unit.value = "person";
  if (values.marginals || values.domains) form.elements.ask.value = "marginals";
  const promise = ["mu", "rho", "part"].find((key) => values[key]) || (values.epsilon && !values.delta ? "epsilon" : "epsilon delta");
  find("promise").value = promise;
  for (const row of form.querySelectorAll(".pair")) row.remove();
  for (const field of form.querySelectorAll("[data-key][data-kind]")) {
    const { key, kind, column } = field.dataset;
    const value = values[key];
    const named = value && typeof value === "object" && !Array.isArray(value) ? value : {};
    const own = Object.hasOwn(named, column) ? named[column] : "";
    if (kind === "text" && value !== undefined) field.value = value;
    if (kind === "switch") field.checked = value === true;
    if (kind === "name") field.checked = (value || []).includes(column);
    if (kind === "low") field.value = own[0] || "";
    if (kind === "high") field.value = own[1] || "";
    if (kind === "entry") field.value = own;
    if (kind === "formulas") field.value = Object.entries(named).map(([name, formula]) => `${name} = ${formula}`).join("\n");
    if (kind === "tables") field.value = Array.isArray(value) ? value.map((line) => line.join(", ")).join("\n") : value || "";
  }
  for (const repeater of form.querySelectorAll(".repeater")) {
    for (const [column, text] of Object.entries(values[repeater.dataset.key] || {})) addPair(repeater, column, text);
  }
  if (page === "explore") fillNumbers(values);
  show();
}

// Rows that can be added: groups, histograms, public values; numbers of the explorer.

function addPair(repeater, column = "", text = "") {
  const { key, legend } = repeater.dataset;
  const select = made("select", { "aria-label": `${legend}: column` });
  options(select, columnNames, "column");
  select.value = column;
  const area = made("textarea", { rows: String(text.includes("\n") ? 3 : 1), "aria-label": `${legend}: public values`, placeholder: key === "histogram" ? "0, 20, 40, 60" : "F, M" });
  area.value = text;
  const gone = made("button", { type: "button", class: "remove", "aria-label": `Remove from ${legend}` }, "×");
  const row = made("div", { class: "pair", "data-pair": key }, select, area, gone);
  gone.addEventListener("click", () => { row.remove(); changed(); repeater.querySelector(".add").focus(); });
  repeater.insertBefore(row, repeater.querySelector(".add"));
  return select;
}

const presets = {
  first: [["age", "1", ""], ["visits", "3", ""], ["income", "40", ""]],
  power: Array.from({ length: 20 }, (_, at) => [String(at + 1), (100 / (at + 1) ** 1.5).toPrecision(3), ""]),
  one: Array.from({ length: 12 }, (_, at) => [String(at + 1), at ? "1" : "100", ""]),
  equal: Array.from({ length: 8 }, (_, at) => [String(at + 1), "1", ""]),
};

function addNumber(name = "", sensitivity = "", tolerance = "") {
  const cells = [["name", name, "Name"], ["sensitivity", sensitivity, "Sensitivity"], ["tolerance", tolerance, "Tolerance"]].map(([kind, value, word]) => {
    const input = made("input", { "data-number": kind, "aria-label": word, ...(kind === "name" ? {} : { inputmode: "decimal" }) });
    input.value = value;
    return made("td", { "data-label": word.toLowerCase() }, input);
  });
  const gone = made("button", { type: "button", class: "remove", "aria-label": "Remove this number" }, "×");
  const row = made("tr", {}, ...cells, made("td", {}, gone));
  gone.addEventListener("click", () => { row.remove(); changed(); find("add-number").focus(); });
  find("numbers").append(row);
  return row.querySelector("input");
}

function collectNumbers(values) {
  const rows = [...find("numbers").rows].map((row) => [...row.querySelectorAll("input")].map((input) => input.value.trim())).filter(([, size]) => size);
  if (!rows.length) return;
  values.sensitivity = rows.map(([, size]) => size);
  if (rows.some(([name]) => name)) values.labels = rows.map(([name], at) => name || String(at + 1));
  if (rows.some(([, , limit]) => limit)) values.tolerance = rows.map(([, , limit]) => limit);
}

function fillNumbers(values) {
  find("numbers").replaceChildren();
  const list = (value) => (Array.isArray(value) ? value : value ? String(value).split(/,\s*/) : []);
  const [names, limits] = [list(values.labels), list(values.tolerance)];
  list(values.sensitivity).forEach((size, at) => addNumber(names[at] || "", size, limits[at] || ""));
}

// What is shown of the form.

function show() {
  for (const name of ["ask", "unit"]) {
    const chosen = form.elements[name];
    if (!chosen) continue;
    for (const option of [...chosen].map((one) => one.value)) {
      for (const part of form.querySelectorAll(`[data-shown-for="${option}"]`)) part.hidden = chosen.value !== option;
    }
  }
  const parts = find("promise").value.split(" ");
  for (const part of form.querySelectorAll("[data-promise]")) part.hidden = !parts.includes(part.dataset.promise);
  const size = Number(find(parts[0]).value);
  find("size").hidden = parts[0] === "part";
  if (size > 0) find("size").value = Math.round(100 * Math.log10(size));
  find("size").setAttribute("aria-valuetext", `${parts[0]} ${find(parts[0]).value}`);
}

async function loadColumns(computed = []) {
  const table = find("table").value;
  find("question").hidden = !table;
  if (!table) return;
  try {
    const answer = await ask("columns", { table, computed });
    columnNames = answer.names;
    find("columns").innerHTML = answer.html;
    for (const select of form.querySelectorAll(".column-choice")) options(select, columnNames, "column");
    find("filter-field").hidden = columnNames.length < 12;
    say("error", "");
  } catch (error) {
    find("question").hidden = true;
    say("error", error.message);
  }
}

function filterColumns() {
  const wanted = find("filter").value.toLowerCase();
  for (const row of find("columns").querySelectorAll("tbody tr")) {
    row.classList.toggle("filtered", !row.dataset.column.toLowerCase().includes(wanted));
  }
}

// Planning: the newest form wins, and nothing waits for an answer that is no longer wanted.

let wanted = 0;
let answered = 0;
let planning = false;
let later = 0;
let changedAt = 0;

function changed() {
  changedAt = performance.now();
  show();
  sessionStorage.setItem(draftKey, JSON.stringify(collect()));
  wanted += 1;
  document.body.dataset.state = "planning";
  if (!planning) plan();
}

async function plan() {
  planning = true;
  clearTimeout(later);
  while (answered !== wanted) {
    answered = wanted;
    const started = changedAt;
    const values = collect();
    const answer = isAsked(values) ? await planOnce(values) : null;
    if (find("ask-release")) find("ask-release").disabled = !answer?.affordable;
    if (answer) {
      await new Promise((done) => requestAnimationFrame(done));
      performance.measure("plan", { start: started, end: performance.now() });
      later = setTimeout(details, 300, values, wanted);
    }
    if (answered === wanted) document.body.dataset.state = answer ? "planned" : "waiting";
  }
  planning = false;
}

async function planOnce(values) {
  try {
    const answer = await ask("plan", { form: values });
    put(answer.html);
    find("results").hidden = false;
    say("error", "");
    say("status", "");
    find("plan").classList.remove("stale");
    return answer;
  } catch (error) {
    say("error", error.message);
    say("status", "");
    find("plan").classList.add("stale");
    return null;
  }
}

async function details(values, turn) {
  try {
    const answer = await ask("details", { form: values, tab, turn });
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

async function prepare() {
  say("release-error", "");
  try {
    const answer = await ask("prepare", { form: collect() });
    token = answer.token;
    put({ spending: answer.html });
    say("progress", "");
    find("do-release").disabled = false;
    find("confirm").showModal();
    find("cancel").focus();
  } catch (error) {
    say("release-error", error.message);
  }
}

async function release() {
  find("do-release").disabled = true;
  say("progress", "Charging the ledger, then reading the table …");
  history.replaceState(null, "", `#${token}`);
  try {
    await showOutcome(await ask("release", { token }));
  } catch (error) {
    const lost = error instanceof TypeError; // the server is gone
    say("release-error", lost ? "The studio did not answer. If it was charged, the charge stands: start it again and look under Earlier releases." : error.message);
  }
  find("confirm").close();
}

async function showOutcome(answer) {
  find("outcome").innerHTML = answer.html;
  find("outcome").focus();
  find("outcome").scrollIntoView({ block: "start" });
  await listReleases();
  if (page === "table") changed();
}

async function listReleases() {
  const answer = await ask("releases");
  put({ releases: answer.html });
  find("earlier").open ||= answer.html.includes("earlier charged");
}

async function makeLedger() {
  say("ledger-error", "");
  const values = { ledger: find("ledger-file").value, epsilon: find("ledger-epsilon").value, delta: find("ledger-delta").value, unit: find("ledger-unit").value };
  try {
    const answer = await ask("ledger", values);
    await chooseFiles();
    find("ledger").value = answer.name;
    find("new-ledger").open = false;
    find("ledger").focus();
    changed();
  } catch (error) {
    say("ledger-error", error.message);
  }
}

async function chooseFiles() {
  const start = await ask("start");
  find("where").textContent = start.folder;
  find("demo").hidden = !start.demo;
  if (page === "table") {
    options(find("table"), start.tables, "Choose a file");
    options(find("ledger"), start.ledgers, "None");
  }
  return start;
}

// Beginning.

form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("input", (event) => {
  const { id } = event.target;
  if (id === "size") find(find("promise").value.split(" ")[0]).value = String(Number((10 ** (event.target.value / 100)).toPrecision(3)));
  if (id === "filter") filterColumns();
  else if (id === "table") loadColumns().then(changed);
  else if (id === "preset") { find("numbers").replaceChildren(); (presets[event.target.value] || [["", "", ""]]).forEach((row) => addNumber(...row)); changed(); }
  else if (!id.startsWith("ledger-")) changed();
});
form.addEventListener("change", async (event) => {
  if (event.target.id !== "derive") return;
  const values = collect();
  await loadColumns(Object.keys(values.derive || {}));
  fill(values);
  changed();
});
form.addEventListener("click", async (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.classList.contains("add")) addPair(button.parentElement).focus();
  if (button.classList.contains("copy")) { await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent); button.textContent = "Copied"; }
  const actions = { "make-ledger": makeLedger, "ask-release": prepare, "do-release": release, "add-number": () => addNumber().focus(), cancel: () => find("confirm").close() };
  if (Object.hasOwn(actions, button.id)) actions[button.id]();
});
addEventListener("focus", () => { if (document.body.dataset.ready) changed(); }); // another tab may have charged

async function begin() {
  try {
    const start = await chooseFiles();
    const draft = sessionStorage.getItem(draftKey);
    const values = draft ? JSON.parse(draft) : page === "table" ? start.form : {};
    if (page === "table") {
      find("table").value = values.table || "";
      await loadColumns(Object.keys(values.derive || {}));
      fill(values);
      await listReleases();
      const asked = location.hash.slice(1);
      if (asked) find("outcome").innerHTML = (await ask("released", { token: asked })).html;
    } else if (draft) fill(values);
    else { presets.first.forEach((row) => addNumber(...row)); find("preset").value = "first"; show(); }
  } catch (error) {
    say("error", error.message);
  }
  document.body.dataset.ready = "yes";
  changed();
}

begin();
