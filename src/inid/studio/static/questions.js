"use strict";
// The questions of a form: what each asks, its groups, its tables by ticks, and the tolerances of its numbers.

const cards = () => (page === "explore" ? [] : [...form.querySelectorAll(".question")]);
const askOf = (card) => card.querySelector("[data-ask]:checked")?.value ?? "statistics";
const inside = JSON.parse(document.body.dataset.inside); // what one of several questions states for itself
let cardsMade = 0;
const limits = new Map(); // tolerances by question and name: what is unticked and ticked again keeps its own
let columnParts = { statistics: "", order: "", row: "" };

function addCard(name = "") {
  const card = find("question-template").content.firstElementChild.cloneNode(true);
  cardsMade += 1;
  card.dataset.number = String(cardsMade);
  if (card.querySelector(".question-name")) card.querySelector(".question-name").value = name;
  for (const radio of card.querySelectorAll("[name=ask]")) {
    radio.dataset.ask = radio.value;
    radio.name = cardsMade === 1 ? "ask" : `ask-${cardsMade}`;
  }
  card.querySelector(".statistic-columns").innerHTML = columnParts.statistics;
  for (const part of ["order", "row"]) if (card.querySelector(`.${part}-columns`)) card.querySelector(`.${part}-columns`).innerHTML = columnParts[part];
  for (const select of card.querySelectorAll(".column-choice")) options(select, columnNames, select.dataset.first);
  find("questions").append(card);
  return card;
}

function startQuestions(values) {
  const unnamed = cards().filter((card) => card.dataset.unnamed).map(nameOf);
  find("questions").replaceChildren();
  cardsMade = 0;
  limits.clear();
  const named = Object.entries(isNamed(values.question) ? values.question : {});
  if (!named.length) fillQuestion(addCard(), values);
  for (const [name, own] of named) {
    const card = addCard(name);
    if (unnamed.includes(name) || /^question \d+$/.test(name)) card.dataset.unnamed = "yes";
    fillQuestion(card, Object.assign(empty(), { bins: values.bins }, own));
  }
}

// One question is the job's own; several have names, and each states what it asks for itself.
function addQuestions(values) {
  if (cards().length === 1 && !nameOf(cards()[0])) return Object.assign(values, questionOf(cards()[0]));
  values.question = empty();
  for (const card of cards()) {
    const own = Object.entries(questionOf(card));
    values.question[nameOf(card)] = Object.assign(empty(), Object.fromEntries(own.filter(([key]) => inside.includes(key))));
    for (const [key, value] of own) if (!inside.includes(key)) values[key] = isNamed(value) ? Object.assign(empty(), values[key], value) : value; // what all of them share
  }
  return values;
}

const nameOf = (card) => (card.querySelector(".question-name")?.value || "").trim();

function anotherQuestion() {
  const all = cards();
  if (all.length === 1 && !nameOf(all[0])) all[0].dataset.unnamed = "yes";
  for (const card of all) card.open = false;
  const card = addCard();
  card.dataset.unnamed = "yes";
  card.querySelector("[data-key=where]").value = all[all.length - 1]?.querySelector("[data-key=where]").value ?? ""; // seen, and mostly the same
  changed();
  card.querySelector(".question-name").focus();
}

// A question that nobody named is called by what it asks; the name is a heading of the report.
function nameUnnamed() {
  const all = cards();
  for (const [at, card] of all.entries()) {
    if (!card.dataset.unnamed) continue;
    const plain = shortWords(questionOf(card)).replace(/[\p{C}\p{Z}]+/gu, " ").replace(/^[\s-]+/, "").replace(/^(.{1,40})(\s.*)?$/u, "$1").slice(0, 60).trim();
    const taken = all.filter((other) => other !== card).map(nameOf);
    const base = !plain || plain === "self" ? `question ${at + 1}` : plain;
    let [name, next] = [base, 2];
    while (taken.includes(name)) { name = `${base} (${next})`; next += 1; }
    card.querySelector(".question-name").value = name;
  }
}

function shortWords(values) {
  const words = [];
  for (const key of Object.keys(asked).filter((one) => values[one] !== undefined)) {
    const value = values[key];
    const names = isNamed(value) ? Object.keys(value) : Array.isArray(value) ? value : [value];
    const title = { marginals: "counts", synthetic: "rows like the table's" }[key] ?? key.replace("_", " ");
    const of = key === "marginals" ? (names.length === 1 && Array.isArray(names[0]) ? ` by ${names[0].join(" and ")}` : "") : value === true || names.length > 2 ? "" : ` of ${names.join(" and ")}`;
    words.push(title + of);
  }
  return words.slice(0, 2).join(", ");
}

function removeQuestion(card) {
  card.remove();
  if (cards().length === 1) { const [last] = cards(); last.querySelector(".question-name").value = ""; delete last.dataset.unnamed; last.open = true; }
  changed();
  find("add-question").focus();
}

// What a question asks, in a few words, for the line that stays when it is folded.
function questionWords(card) {
  const values = questionOf(card);
  const words = [];
  for (const key of Object.keys(asked)) {
    const value = values[key];
    if (value === undefined) continue;
    const title = { marginals: "counts", synthetic: "rows like the table's" }[key] ?? key.replace("_", " ");
    const named = Array.isArray(value) ? (key === "marginals" ? value.map((by) => `by ${by.join(" and ")}`) : value) : isNamed(value) ? Object.keys(value) : [];
    words.push(value === true ? title : `${title} ${key === "marginals" ? "" : "of "}${named.length > 4 ? `${named.length} columns` : named.join(", ")}`.trim());
  }
  if (values.by) words.push(`by ${Object.keys(values.by).join(" and ")}`);
  return words.join("; ") || "nothing yet";
}

function questionOf(card) {
  const values = readFields(card, empty(), () => true);
  if (["statistics", "order"].includes(askOf(card))) pick(card, "by", values);
  if (askOf(card) === "keys") pick(card, "choose", values);
  if (askOf(card) === "synthetic") askRows(card, values);
  if (askOf(card) === "marginals") {
    const every = values.marginals;
    if (every !== undefined) values.marginals = /^\d+$/.test(every) ? Number(every) : every;
    for (const table of tablesOf(card)) {
      if (table.counts && table.by.length && every === undefined) (values.marginals ??= []).push(table.by);
      for (const [kind, name] of table.numbers) ((values[kind] ??= empty())[name] ??= []).push(table.by);
    }
  }
  for (const [name] of wantedTolerances(card, values)) {
    const text = limits.get(`${card.dataset.number} ${name}`);
    if (text) (values.tolerance ??= empty())[name] = text;
  }
  return values;
}

// A group is a column with its stated public values, or with those that a file states for it alone.
function pick(card, key, values) {
  for (const tick of card.querySelectorAll(`[data-picks=${key}] input:checked`)) {
    const list = tick.dataset.held || wholeRange(listOf(tick.dataset.column));
    if (list && isSeen(tick)) (values[key] ??= empty())[tick.dataset.column] = list;
  }
}

function wholeRange(text) {
  const ends = /^(-?\d{1,9}):(-?\d{1,9})$/.exec(text);
  if (!ends || ends[2] - ends[1] > 10000 || ends[2] - ends[1] < 0) return text;
  return Array.from({ length: ends[2] - ends[1] + 1 }, (_, at) => Number(ends[1]) + at).join(", ");
}

function fillQuestion(card, values) {
  const places = new Set(Object.keys(asked).filter((key) => values[key] && !(key === "count" && values.discover)).map((key) => asked[key]));
  const byTables = isNamed(values.mean) || isNamed(values.sum);
  const chosen = byTables ? "marginals" : ["order", "keys", "marginals", "synthetic"].find((place) => places.has(place)) || (values.domains && !places.size && "marginals");
  const radio = [...card.querySelectorAll("[data-ask]")].find((one) => one.value === chosen);
  if (radio) radio.checked = true;
  fillFields(card, values, () => true);
  for (const key of ["by", "choose"]) {
    for (const [name, text] of Object.entries(isNamed(values[key]) ? values[key] : {})) addTick(card, key, name, text);
  }
  fillTables(card, values);
  fillRows(card, values);
  for (const [name, text] of Object.entries(isNamed(values.tolerance) ? values.tolerance : {})) limits.set(`${card.dataset.number} ${name}`, text);
}

// Ticks of columns whose public values are listed.

function addTick(card, key, name, held = "") {
  const place = card.querySelector(`[data-picks=${key}] .ticks`);
  if (!place || [...place.querySelectorAll("input")].some((tick) => tick.dataset.column === name)) return;
  const word = key === "by" ? "Group by" : "Choose among";
  const tick = made("input", { type: "checkbox", "data-column": name, "aria-label": `${word} ${name}` });
  tick.checked = Boolean(held);
  if (held && held !== listOf(name)) tick.dataset.held = held;
  place.append(made("label", {}, tick, ` ${name}`));
}

function showQuestions() {
  const names = listed();
  nameUnnamed();
  const several = cards().length > 1 || cards().some(nameOf);
  for (const card of cards()) {
    for (const part of card.querySelectorAll("[data-several]")) part.hidden = !several;
    card.querySelector(".question-title").textContent = several ? `Question “${nameOf(card)}”: ` : "The question: ";
    card.querySelector(".question-words").textContent = questionWords(card);
    for (const part of card.querySelectorAll("[data-asked-for]")) part.hidden = !part.dataset.askedFor.split(" ").includes(askOf(card));
    for (const picks of card.querySelectorAll("[data-picks]")) {
      const place = picks.querySelector(".ticks");
      for (const tick of place.querySelectorAll("input")) if (!names.includes(tick.dataset.column) && !tick.dataset.held) tick.parentElement.remove();
      for (const name of names) addTick(card, picks.dataset.picks, name);
      let hint = place.querySelector(".note");
      if (!place.querySelector("input")) { if (!hint) place.append(made("p", { class: "note" }, "List the public values of a column under Columns, and it can be ticked here.")); } else if (hint) hint.remove();
    }
    for (const table of card.querySelectorAll(".one-table")) showTable(table);
    showRows(card);
  }
  showTolerances();
}

// Tables: what each goes by, and what stands in its cells, by ticks.

const numbered = () => columnNames.filter((name) => picked.has(name) && limitsOf(name));

function addTable(card, by = [], counts = true, numbers = []) {
  const place = card.querySelector(".tables");
  if (!place) return null;
  const gone = made("button", { type: "button", class: "remove", "aria-label": "Remove this table" }, "×");
  const table = made("fieldset", { class: "one-table" }, made("legend", {}, "Table"), made("div", { class: "by ticks" }), made("div", { class: "cells ticks" }), gone);
  table.dataset.by = JSON.stringify(by);
  table.dataset.cells = JSON.stringify([...(counts ? [["count", ""]] : []), ...numbers]);
  gone.addEventListener("click", () => { table.remove(); changed(); card.querySelector(".add-table").focus(); });
  place.append(table);
  showTable(table);
  return table;
}

const byOf = (table) => JSON.parse(table.dataset.by);
const cellsOf = (table) => JSON.parse(table.dataset.cells);

function tablesOf(card) {
  return [...card.querySelectorAll(".one-table")].map((table) => ({ by: byOf(table), counts: cellsOf(table).some(([kind]) => kind === "count"), numbers: cellsOf(table).filter(([kind]) => kind !== "count") }));
}

function showTable(table) {
  const at = [...table.parentElement.children].indexOf(table) + 1;
  table.querySelector("legend").textContent = `Table ${at}`;
  const [by, cells] = [byOf(table), cellsOf(table)];
  const groups = [...new Set([...columnNames.filter((name) => (picked.has(name) && listOf(name)) || by.includes(name)), ...by])];
  const numbers = [["count", ""], ...[...new Set([...numbered(), ...cells.map(([, name]) => name).filter(Boolean)])].flatMap((name) => [["mean", name], ["sum", name]])];
  ticked(table.querySelector(".by"), "by", groups.map((name) => [name, name, `Table ${at} by ${name}`, by.includes(name), [name]]));
  ticked(table.querySelector(".cells"), "cells", numbers.map(([kind, name]) => [`${kind} ${name}`, kind === "count" ? "counts" : `${kind} of ${name}`, `Table ${at}: ${kind === "count" ? "counts" : `${kind} of ${name}`}`, cells.some((own) => same(own, [kind, name])), [kind, name]]));
}

function ticked(place, what, wanted) {
  const signature = JSON.stringify(wanted.map(([id, , label]) => [id, label]));
  if (place.dataset.signature !== signature) {
    place.dataset.signature = signature;
    place.replaceChildren(made("span", { class: "note" }, what === "by" ? "by" : "cells hold"));
    for (const [, word, label, , entry] of wanted) {
      const tick = made("input", { type: "checkbox", "aria-label": label });
      tick.dataset.entry = JSON.stringify(entry);
      tick.dataset.what = what;
      place.append(made("label", {}, tick, ` ${word}`));
    }
    if (what === "by" && !wanted.length) place.append(made("span", { class: "note" }, " nothing yet: list the public values of a column under Columns"));
  }
  [...place.querySelectorAll("input")].forEach((tick, at) => { tick.checked = wanted[at][3]; });
}

function tickTable(tick) {
  const table = tick.closest(".one-table");
  const entry = JSON.parse(tick.dataset.entry);
  const key = tick.dataset.what;
  const one = key === "by" ? entry[0] : entry;
  const before = JSON.parse(table.dataset[key]).filter((own) => !same(own, one));
  table.dataset[key] = JSON.stringify(tick.checked ? [...before, one] : before);
}

function fillTables(card, values) {
  const place = card.querySelector(".tables");
  if (!place) return;
  place.replaceChildren();
  const tables = [];
  const found = (by) => tables.find((table) => same(table.by, by)) ?? (tables.push({ by, counts: false, numbers: [] }), tables[tables.length - 1]);
  for (const by of Array.isArray(values.marginals) ? values.marginals : []) found(by).counts = true;
  for (const kind of ["mean", "sum"]) for (const [name, groupings] of Object.entries(isNamed(values[kind]) ? values[kind] : {})) for (const by of groupings) found(by).numbers.push([kind, name]);
  for (const table of tables) addTable(card, table.by, table.counts, table.numbers);
}

// Tolerances of what is asked.

function wantedTolerances(card, values) {
  const ask = askOf(card);
  if (ask === "marginals") {
    const tables = tablesOf(card).filter((table) => table.counts && table.by.length).map((table) => [table.by.join("*"), `counts by ${table.by.join(" and ")}`]);
    const numbers = ["mean", "sum"].flatMap((kind) => Object.keys(isNamed(values[kind]) ? values[kind] : {}).map((name) => [`${kind}(${name})`, `${kind} of ${name}`]));
    return [...(Array.isArray(values.marginals) ? tables : []), ...numbers];
  }
  if (ask === "order") {
    const running = ["cdf", "cumulative"].flatMap((key) => Object.keys(values[key] || {}));
    const words = (name) => (running.includes(name) ? `running total of ${name}, in rows` : `quantiles of ${name}, in rows`);
    return [...new Set([...Object.keys(values.quantile || {}), ...running])].map((name) => [name, words(name)]);
  }
  if (ask !== "statistics") return [];
  const names = new Set(["sum", "mean", "variance", "std", "covariance"].flatMap((key) => values[key] || []));
  return [...(values.count ? [["count", "number of rows"]] : []), ...columnNames.filter((name) => names.has(name)).map((name) => [name, name])];
}

function showTolerances() {
  const place = find("tolerances");
  const wanted = cards().flatMap((card) => wantedTolerances(card, questionOf(card)).map(([name, words]) => [`${card.dataset.number} ${name}`, nameOf(card) ? `${words} (${nameOf(card)})` : words]));
  const signature = JSON.stringify([wanted, cards().map(askOf)]);
  if (place.dataset.signature === signature) return;
  place.dataset.signature = signature;
  place.replaceChildren();
  for (const [id, words] of wanted) {
    const input = made("input", { inputmode: "decimal", "data-limit": id, "aria-label": `Tolerance of ${words}`, placeholder: "none" });
    input.value = limits.get(id) || "";
    place.append(made("label", { class: "field small" }, made("span", {}, words), input));
  }
  const isRows = cards().length && cards().every((card) => askOf(card) === "synthetic");
  if (!wanted.length) place.append(made("p", { class: "note" }, isRows ? "Synthetic rows take no tolerance: their distance from the real rows is not known." : "Once you have ticked what to publish, you can state tolerances here."));
}
