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

function collect() {
  const values = empty();
  for (const field of form.querySelectorAll("[data-key]")) {
    if (field.closest("[hidden]")) continue;
    const { key, kind, column } = field.dataset;
    const text = (field.value || "").trim();
    if (kind === "text" && text) values[key] = text;
    if (kind === "switch" && field.checked) values[key] = true;
    if (kind === "name" && field.checked) (values[key] ??= []).push(column);
    if (kind === "groupings" && field.checked) (values[key] ??= empty())[column] = JSON.parse(field.dataset.held || "[]");
    if (kind === "tables" && text) [values[key], values.tolerance] = tablesOf(text);
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
  for (const [key, value] of Object.entries(kept)) values[key] = isNamed(value) ? Object.assign(empty(), value, values[key]) : values[key] ?? value;
  if (values.tolerance === undefined) delete values.tolerance;
  return values;
}

const isNamed = (value) => Boolean(value) && typeof value === "object" && !Array.isArray(value);

const usual = JSON.parse(document.body.dataset.usual); // the words that mean the same as no choice
const asked = JSON.parse(document.body.dataset.asked); // the keys that are questions, and where their fields are

// What a file states and no field shows is not lost: it is said, and stays until it is left out.
function keep(values) {
  kept = empty();
  const seen = collect();
  for (const [key, value] of Object.entries(values)) {
    if (!isNamed(value)) { if (seen[key] === undefined && ![undefined, "", false, usual[key]].includes(value)) kept[key] = value; continue; }
    const rest = Object.entries(value).filter(([name]) => !Object.hasOwn(seen[key] ?? {}, name));
    if (rest.length) kept[key] = Object.assign(empty(), Object.fromEntries(rest));
  }
  showKept();
}

function showKept() {
  if (!find("kept")) return;
  const words = Object.entries(kept).map(([key, value]) => `${key} = ${typeof value === "object" ? JSON.stringify(value) : value}`);
  find("kept").hidden = !words.length;
  find("kept-text").textContent = `Also stated, without a field here: ${words.join("; ")}.`;
}

function isNeeded(field) {
  const { needs } = field.dataset;
  if (needs === "count") return find("count").checked;
  if (needs === "row") return field.closest("tr").querySelector("input:checked, [data-key=quantile]:not(:placeholder-shown)") !== null;
  return true;
}

function tablesOf(text) {
  if (/^\d+$/.test(text)) return [Number(text), undefined];
  const [tables, limits] = [[], empty()];
  for (const line of text.split("\n")) {
    const [, list, limit] = /^(.*?)(?::\s*([\d.]+(?:e[-+]?\d+)?))?\s*$/i.exec(line);
    const names = list.split(",").map((name) => name.trim()).filter(Boolean);
    if (names.length) tables.push(names);
    if (names.length && limit) limits[names.join("*")] = limit;
  }
  return [tables, Object.keys(limits).length ? limits : undefined];
}

function tablesText(tables, limits) {
  if (!Array.isArray(tables)) return tables || "";
  return tables.map((names) => names.join(", ") + (limits[names.join("*")] ? `: ${limits[names.join("*")]}` : "")).join("\n");
}

function formulasOf(text) {
  const found = empty();
  for (const line of text.split("\n").filter((one) => one.trim())) {
    const [, name, formula] = /^([^=]*)=?(.*)$/.exec(line);
    found[name.trim()] = formula.trim();
  }
  return found;
}

// What is begun and not finished would be left out without a word: a release asks for all of it, a plan for who is protected.
function unfinished(everything) {
  if (page === "explore") return "";
  if (form.elements.unit.value === "person" && !form.querySelector("[data-key=person]").value) return "The person column is missing: choose the column that says whose row it is.";
  for (const row of everything ? form.querySelectorAll(".pair") : []) {
    const [column, text] = [row.querySelector("select").value, row.querySelector("textarea").value.trim()];
    if (!row.closest("[hidden]") && !(column && text)) return `${row.parentElement.dataset.legend}: a row is not filled in. Choose a column and list its public values, or remove the row.`;
  }
  return "";
}

function isAsked(values) {
  if (page === "explore") return values.sensitivity !== undefined;
  return Boolean(values.table) && Object.keys(asked).some((key) => values[key] !== undefined) && (page !== "stream" || values.periods !== undefined);
}

function fill(values) {
  if (values.person) form.elements.unit.value = "person";
  const places = new Set(Object.keys(asked).filter((key) => values[key]).map((key) => asked[key]));
  const chosen = ["order", "keys", "marginals"].find((place) => places.has(place)) || (values.domains && "marginals");
  if (chosen) form.elements.ask.value = chosen;
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
    if (kind === "tables") field.value = tablesText(value, isNamed(values.tolerance) ? values.tolerance : {});
    if (kind === "groupings") { field.checked = Object.hasOwn(named, column); field.dataset.held = JSON.stringify(own || []); }
  }
  for (const repeater of form.querySelectorAll(".repeater")) {
    for (const [column, text] of Object.entries(values[repeater.dataset.key] || {})) addPair(repeater, column, text);
  }
  if (page === "explore") fillNumbers(values);
  show();
}

// Rows that can be added: groups, histograms, public values; numbers of the explorer.

function addPair(repeater, column = "", text = "") {
  const { key, legend, example } = repeater.dataset;
  const select = made("select", { "aria-label": `${legend}: column` });
  options(select, columnNames, "column");
  select.value = column;
  const area = made("textarea", { rows: String(text.includes("\n") ? 3 : 1), "aria-label": `${legend}: public values`, placeholder: example });
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
  const chosen = ["ask", "unit"].map((name) => form.elements[name]?.value);
  if (page === "stream") chosen.push(isThere() ? "there" : "new", find("want").value);
  for (const part of form.querySelectorAll("[data-shown-for]")) part.hidden = !part.dataset.shownFor.split(" ").some((word) => chosen.includes(word));
  const parts = find("promise").value.split(" ");
  for (const part of form.querySelectorAll("[data-promise]")) part.hidden = !parts.includes(part.dataset.promise);
  const size = Number(find(parts[0]).value);
  find("size").hidden = parts[0] === "part";
  if (size > 0) find("size").value = Math.round(100 * Math.log10(size));
  find("size").setAttribute("aria-valuetext", `${parts[0]} ${find(parts[0]).value}`);
}
