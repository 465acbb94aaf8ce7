"use strict";
// The form: what it holds as the keys of a job, and a job put into its fields. Asking the server is studio.js's work.

const page = document.body.dataset.page;
const form = document.getElementById("form");
const find = (id) => document.getElementById(id);
const isThere = () => page === "stream" && Boolean(find("stream").value); // a stream that is there is chosen
let columnNames = [];
let kept = Object.create(null); // what a file states and no field shows

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
const same = (one, two) => JSON.stringify(one) === JSON.stringify(two);
const isNamed = (value) => Boolean(value) && typeof value === "object" && !Array.isArray(value);
const isSeen = (field) => !field.closest("[hidden]");

function collect() {
  const values = readFields(form, empty(), (field) => !field.closest(".question"));
  if (page === "explore") collectNumbers(values);
  else addPublicFacts(addQuestions(values));
  return withKept(values, kept);
}

function withKept(values, rest) {
  for (const [key, value] of Object.entries(rest)) {
    if (key === "question") for (const [name, own] of Object.entries(value)) { if (values.question?.[name]) withKept(values.question[name], own); }
    else values[key] = isNamed(value) ? Object.assign(empty(), value, values[key]) : values[key] ?? value;
  }
  return values;
}

function readFields(root, values, isOwn) {
  for (const field of root.querySelectorAll("[data-key]")) {
    if (!isOwn(field) || !isSeen(field)) continue;
    const { key, kind, column } = field.dataset;
    const text = (field.value || "").trim();
    if (kind === "text" && text) values[key] = text;
    if (kind === "switch" && field.checked) values[key] = true;
    if (kind === "name" && field.checked) (values[key] ??= []).push(column);
    if (kind === "every" && text) values[key] = text;
    if (kind === "groupings" && field.checked) (values[key] ??= empty())[column] = JSON.parse(field.dataset.held || "[]");
    if (kind === "formulas" && text) values[key] = formulasOf(text);
    if ((kind === "low" || kind === "high") && text) ((values[key] ??= empty())[column] ??= ["", ""])[kind === "low" ? 0 : 1] = text;
    if (kind === "entry" && text) (values[key] ??= empty())[column] = text;
  }
  for (const row of root.querySelectorAll(".pair")) {
    if (!isOwn(row) || !isSeen(row)) continue;
    const [column, text] = [row.querySelector("select").value, row.querySelector("textarea").value.trim()];
    if (column && text) (values[row.dataset.pair] ??= empty())[column] = text;
  }
  return values;
}

// Public facts are stated once, and sent where a question needs them: fill values of columns that are added up, lists
// of columns that tables and orders go by.
function addPublicFacts(values) {
  const numbers = new Set();
  const lists = new Set();
  for (const card of cards()) {
    const own = questionOf(card);
    for (const key of ["sum", "mean", "variance", "std", "covariance"]) for (const name of isNamed(own[key]) ? Object.keys(own[key]) : own[key] || []) numbers.add(name);
    for (const name of Object.keys(own.bins || {})) numbers.add(name);
    for (const name of neededLists(card, own)) lists.add(name);
  }
  for (const field of form.querySelectorAll("[data-kind=fill]")) {
    if (field.value.trim() && numbers.has(field.dataset.column)) (values.missing ??= empty())[field.dataset.column] = field.value.trim();
  }
  for (const name of lists) if (listOf(name)) (values.domains ??= empty())[name] = listOf(name);
}

function neededLists(card, own) {
  if (askOf(card) === "marginals") return /^\d+$/.test(String(own.marginals)) ? listed() : tablesOf(card).flatMap((table) => table.by);
  if (askOf(card) === "synthetic") return rowColumns(card);
  if (askOf(card) !== "order") return [];
  const asked = ["quantile", "cdf", "cumulative"].flatMap((key) => Object.keys(own[key] || {}));
  const groups = ["cdf", "cumulative"].flatMap((key) => Object.values(own[key] || {}).flat(2));
  return [...asked.filter((name) => !limitsOf(name)), ...groups];
}

const rowOf = (name) => [...form.querySelectorAll("#columns tr[data-column]")].find((row) => row.dataset.column === name);
const listOf = (name) => rowOf(name)?.querySelector(".list").value.trim() || "";
const limitsOf = (name) => Boolean(rowOf(name)?.querySelector("[data-kind=low]")?.value.trim());
const listed = () => columnNames.filter((name) => picked.has(name) && listOf(name));

function formulasOf(text) {
  const found = empty();
  for (const line of text.split("\n").filter((one) => one.trim())) {
    const [, name, formula] = /^([^=]*)=?(.*)$/.exec(line);
    found[name.trim()] = formula.trim();
  }
  return found;
}

const usual = JSON.parse(document.body.dataset.usual); // the words that mean the same as no choice
const asked = JSON.parse(document.body.dataset.asked); // the keys that are questions, and where their fields are

// What a file states and no field shows is not lost: it is said, and stays until it is left out.
function keep(values) {
  kept = empty();
  kept = unseen(values, collect());
  showKept();
}

function unseen(values, seen) {
  const found = empty();
  for (const [key, value] of Object.entries(values)) {
    if (!isNamed(value)) { if (!same(seen[key], value) && ![undefined, "", false, usual[key]].includes(value)) found[key] = value; continue; }
    const rest = Object.entries(value).filter(([name]) => !Object.hasOwn(seen[key] ?? {}, name)).concat(key === "question" ? Object.entries(value).map(([name, own]) => [name, unseen(own, seen.question?.[name] ?? {})]).filter(([, own]) => Object.keys(own).length) : []);
    if (rest.length) found[key] = Object.assign(empty(), Object.fromEntries(rest));
  }
  return found;
}

function showKept() {
  if (!find("kept")) return;
  const words = Object.entries(kept).map(([key, value]) => `${key} = ${typeof value === "object" ? JSON.stringify(value) : value}`);
  find("kept").hidden = !words.length;
  find("kept-text").textContent = `Also stated, without a field here: ${words.join("; ")}.`;
}

// What is begun and not finished would be left out without a word: a release asks for all of it, a plan for who is protected.
function unfinished(everything) {
  if (page === "explore") return "";
  if (!form.elements.unit.value) return "Whose privacy is protected? Choose one row, or one person.";
  if (form.elements.unit.value === "person" && !form.querySelector("[data-key=person]").value) return "The person column is missing: choose the column that says whose row it is.";
  for (const card of cards()) {
    const own = questionOf(card);
    for (const key of ["mean", "sum", "variance", "std", "covariance"]) {
      const text = (isNamed(own[key]) ? Object.keys(own[key]) : own[key] || []).find((name) => lines(listOf(name)).some((one) => Number.isNaN(Number(one)) && !/^-?\d+:-?\d+$/.test(one)));
      if (text) return `${key} needs numbers, and the public values of ${text} are texts: count them instead, in groups or tables.`;
    }
  }
  for (const row of everything ? form.querySelectorAll(".pair") : []) {
    const [column, text] = [row.querySelector("select").value, row.querySelector("textarea").value.trim()];
    if (isSeen(row) && !(column && text)) return `${row.parentElement.dataset.legend}: a row is not filled in. Choose a column and list its public values, or remove the row.`;
  }
  if (unfinishedRows()) return unfinishedRows();
  const names = cards().map(nameOf);
  if (names.length > 1 && new Set(names).size < names.length) return "Two questions have the same name, or none: give each a name of its own.";
  for (const card of everything ? cards() : []) {
    if (askOf(card) === "marginals" && tablesOf(card).some((table) => !table.counts && !table.numbers.length)) return "A table is not filled in: tick what stands in its cells, or remove it.";
  }
  return "";
}

const asksSomething = (own) => Object.keys(asked).some((key) => own[key] !== undefined);

// The name of a question that asks for nothing beside others that do.
function emptyQuestion(values) {
  const stated = Object.entries(isNamed(values.question) ? values.question : {});
  return stated.some(([, own]) => asksSomething(own)) ? stated.find(([, own]) => !asksSomething(own))?.[0] : undefined;
}

function isAsked(values) {
  if (page === "explore") return values.sensitivity !== undefined;
  const stated = isNamed(values.question) ? Object.values(values.question) : [values];
  return Boolean(values.table) && stated.every(asksSomething) && (page !== "stream" || values.periods !== undefined);
}

function fill(values, lists = {}, fills = {}) {
  if (values.person) form.elements.unit.value = "person";
  if (page !== "explore") pickNamed(values, lists);
  const promise = ["mu", "rho", "part"].find((key) => values[key]) || (values.epsilon && !values.delta ? "epsilon" : "epsilon delta");
  find("promise").value = promise;
  fillFields(form, values, (field) => !field.closest(".question"));
  if (page !== "explore") {
    const stated = [...Object.values(isNamed(values.question) ? values.question : {}), values];
    for (const own of stated) for (const key of ["choose", "by", "domains"]) for (const [name, text] of Object.entries(isNamed(own[key]) ? own[key] : {})) fillList(name, text);
    for (const [name, text] of Object.entries(lists)) fillList(name, text);
    for (const field of form.querySelectorAll("[data-kind=fill]")) if (Object.hasOwn(fills, field.dataset.column)) field.value = fills[field.dataset.column];
    startQuestions(values);
  }
  if (page === "explore") fillNumbers(values);
  show();
}

function fillList(name, text) {
  const area = rowOf(name)?.querySelector(".list");
  if (area) area.value = text;
}

function fillFields(root, values, isOwn) {
  for (const row of [...root.querySelectorAll(".pair")].filter(isOwn)) row.remove();
  for (const field of [...root.querySelectorAll("[data-key][data-kind]")].filter(isOwn)) {
    const { key, kind, column } = field.dataset;
    const value = values[key];
    const own = isNamed(value) && Object.hasOwn(value, column) ? value[column] : "";
    if (kind === "text" && value !== undefined) { if (field.id === "name") options(field, [value], "default"); field.value = value; }
    if (kind === "switch") field.checked = value === true;
    if (kind === "name") field.checked = Array.isArray(value) && value.includes(column);
    if (kind === "low") field.value = own[0] || "";
    if (kind === "high") field.value = own[1] || "";
    if (kind === "entry" || kind === "fill") field.value = own;
    if (kind === "every") field.value = /^\d+$/.test(String(value)) ? value : "";
    if (kind === "formulas") field.value = Object.entries(isNamed(value) ? value : {}).map(([name, formula]) => `${name} = ${formula}`).join("\n");
    if (kind === "groupings") { field.checked = isNamed(value) && Object.hasOwn(value, column); field.dataset.held = JSON.stringify(own || []); }
  }
  for (const repeater of [...root.querySelectorAll(".repeater")].filter(isOwn)) {
    for (const [column, text] of Object.entries(values[repeater.dataset.key] || {})) addPair(repeater, column, text);
  }
}

// Rows that can be added: histograms; numbers of the explorer.

function addPair(repeater, column = "", text = "") {
  const { key, legend, example } = repeater.dataset;
  const select = made("select", { "aria-label": `${legend}: column` });
  options(select, columnNames, "column");
  select.value = column;
  const area = made("textarea", { rows: String(Math.min(8, text.split("\n").length)), class: "grows", "aria-label": `${legend}: public values`, placeholder: example });
  area.value = text;
  const bands = made("button", { type: "button", class: "make-bands", "aria-label": `Make bands for ${legend}` }, "Bands…");
  const gone = made("button", { type: "button", class: "remove", "aria-label": `Remove from ${legend}` }, "×");
  const row = made("div", { class: "pair", "data-pair": key }, select, area, bands, gone);
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
  const chosen = [form.elements.unit?.value];
  if (page === "stream") chosen.push(isThere() ? "there" : "new", find("want").value);
  for (const part of document.querySelectorAll("[data-shown-for]")) part.hidden = !part.dataset.shownFor.split(" ").some((word) => chosen.includes(word));
  const parts = find("promise").value.split(" ");
  for (const part of form.querySelectorAll("[data-promise]")) part.hidden = !parts.includes(part.dataset.promise);
  const size = Number(find(parts[0]).value);
  find("size").hidden = find("size-note").hidden = parts[0] === "part";
  if (size > 0) find("size").value = Math.round(100 * Math.log10(size));
  find("size").setAttribute("aria-valuetext", `${parts[0]} ${find(parts[0]).value}`);
  if (page !== "explore") { showPicks(); showQuestions(); showLists(); }
}

// A list of 16 codes is seen as 16 codes, and limits stand beside the words and the unit of their column.
function showLists() {
  const words = formulasOf(form.querySelector("[data-key=called]")?.value || "");
  for (const row of form.querySelectorAll("#columns tr[data-column]")) row.querySelector(".readers-words").textContent = words[row.dataset.column] || "";
  find("currency-box").hidden = !find("ledger-delta").value.trim();
  for (const area of form.querySelectorAll("textarea.list, textarea.grows")) {
    const text = area.value.trim();
    const wide = Math.max(area.clientWidth / 8, 16);
    area.rows = Math.max(1, Math.min(8, text.split("\n").reduce((sum, line) => sum + Math.ceil((line.length + 1) / wide), 0)));
    const counted = area.closest("td")?.querySelector(".counted");
    const range = /^(-?\d+):(-?\d+)$/.exec(text);
    const count = range ? range[2] - range[1] + 1 : text.split(text.includes("\n") ? "\n" : ",").filter((one) => one.trim()).length;
    if (counted) counted.textContent = count > 3 ? `${count} values` : "";
  }
}
