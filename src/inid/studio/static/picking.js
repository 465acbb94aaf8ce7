"use strict";
// Picking columns: from a list, or by lines of what is known of them. Only picked columns have rows of boxes.

let picked = new Set();
let columnKinds = empty(); // what the schema of the table says; nothing of a CSV file
const mostChips = 40;
const namingKeys = ["bounds", "missing", "domains", "types", "bins", "by", "derive", "per_person", "synthetic_columns", "synthetic_heaps", ...Object.keys(asked)]; // whose values name columns

const typeOf = (name) => columnKinds[name] || rowOf(name)?.querySelector("[data-key=types]")?.value || "";
const isNumber = (name) => ["number", "yes or no", "computed"].includes(typeOf(name)) || (!typeOf(name) && limitsOf(name));

function pickColumn(name, isPicked = true) {
  if (isPicked) picked.add(name); else picked.delete(name);
}

// Columns that a job names are picked; a table may have had others.
function pickNamed(values, lists = {}) {
  const texts = new Set(Object.keys(lists));
  const walk = (value) => {
    if (typeof value === "string") texts.add(value);
    else if (value && typeof value === "object") for (const [name, one] of Object.entries(value)) { texts.add(name); walk(one); }
  };
  for (const own of [values, ...Object.values(isNamed(values.question) ? values.question : {})]) for (const key of namingKeys) walk(own[key]);
  for (const name of columnNames) if (texts.has(name) || columnKinds[name] === "computed") picked.add(name);
}

function showPicks() {
  const place = find("pick-list");
  if (!place) return;
  const text = find("pick").value.trim().toLowerCase();
  const fitting = columnNames.filter((name) => !text || text.includes("\n") || name.toLowerCase().includes(text) || text.includes(name.toLowerCase()));
  const shown = (fitting.length ? fitting : columnNames).slice(0, mostChips);
  const signature = JSON.stringify([shown, fitting.length, columnKinds]);
  if (place.dataset.signature !== signature) {
    place.dataset.signature = signature;
    place.replaceChildren();
    for (const name of shown) {
      const tick = made("input", { type: "checkbox", "aria-label": `Pick ${name}` });
      tick.dataset.pick = name;
      place.append(made("label", { class: "chip" }, tick, made("span", {}, name), ...(columnKinds[name] ? [made("span", { class: "kind" }, columnKinds[name])] : [])));
    }
    const more = (fitting.length || columnNames.length) - shown.length;
    if (more > 0) place.append(made("span", { class: "note" }, `and ${more} more: type a part of the name`));
    if (shown.length > 1 && more <= 0) place.append(made("button", { type: "button", id: "pick-all" }, "Pick all"));
  }
  for (const tick of place.querySelectorAll("input")) tick.checked = picked.has(tick.dataset.pick);
  for (const row of form.querySelectorAll("tr[data-column]")) {
    const name = row.dataset.column;
    const asks = row.closest(".statistic-columns") && !isNumber(name) && !row.querySelector("input:checked");
    const isText = row.closest(".order-columns") && typeOf(name) === "text" && !listOf(name);
    row.hidden = !picked.has(name) || Boolean(asks || isText);
  }
  for (const row of form.querySelectorAll("#columns tr[data-column]")) {
    const isCode = ["code", "date"].includes(typeOf(row.dataset.column)); // it has no limits
    for (const field of row.querySelectorAll(".limit input")) field.hidden = isCode;
    for (const button of row.querySelectorAll(".make-bands")) button.hidden = isCode;
  }
  for (const table of form.querySelectorAll("table.columns")) if (!table.matches(".numbers")) table.hidden = ![...table.tBodies[0].rows].some((row) => !row.hidden);
  for (const card of cards()) card.querySelector(".no-numbers").hidden = askOf(card) !== "statistics" || [...card.querySelectorAll(".statistic-columns tr[data-column]")].some((row) => !row.hidden);
}

// "mean of age 0 to 110", "by sex F, M", "age 0-110": what is known of a column, and what is asked of it.

const statistics = ["mean", "sum", "variance", "std"];
const linePattern = new RegExp(`^(?:(${statistics.join("|")}|median|by)\\s+(?:of\\s+)?)?(.*)$`, "i");
const limitsPattern = /^[\s:=]*(-?[\d.,]*\d)\s*(?:to|-|\u2013|:|\.\.)\s*(-?[\d.,]*\d)$/i;

function readLine(line) {
  if (/^(count|number of rows)$/i.test(line)) return { count: true };
  const [, word, rest] = linePattern.exec(line);
  const name = [...columnNames].sort((one, two) => two.length - one.length).find((one) => {
    const after = rest.slice(one.length);
    return rest.toLowerCase().startsWith(one.toLowerCase()) && (!after || /^[\s:=]/.test(after));
  });
  if (name === undefined) return null;
  const facts = rest.slice(name.length).trim();
  const limits = limitsPattern.exec(facts);
  return { name, word: (word || "").toLowerCase(), limits: limits && [limits[1], limits[2]], list: limits ? "" : facts.replace(/^[:=]\s*/, "") };
}

function setType(name, type) {
  const select = rowOf(name)?.querySelector("[data-key=types]");
  if (select && !select.value) select.value = type;
}

function addLines() {
  const wrong = [];
  for (const line of find("pick").value.split(/[\n;]/).map((one) => one.trim()).filter(Boolean)) {
    const read = readLine(line);
    const card = cards()[0];
    if (!read) { wrong.push(line); continue; }
    if (read.count) { card.querySelector("[data-key=count]").checked = true; continue; }
    const { name, word, limits: ends, list } = read;
    pickColumn(name);
    const row = rowOf(name);
    if (ends && row.querySelector("[data-kind=low]")) {
      row.querySelector("[data-kind=low]").value = ends[0];
      row.querySelector("[data-kind=high]").value = ends[1];
      setType(name, "number");
    }
    if (list) fillList(name, list);
    if (word === "by") { setType(name, "code"); showPicks(); addTick(card, "by", name, list ? "" : undefined); const tick = [...card.querySelectorAll("[data-picks=by] input")].find((one) => one.dataset.column === name); if (tick) tick.checked = true; }
    if (statistics.includes(word)) { setType(name, "number"); const tick = [...card.querySelectorAll(`[data-key=${word}]`)].find((one) => one.dataset.column === name); if (tick) tick.checked = true; }
    if (word === "median") { card.querySelector("[data-ask][value=order]").checked = true; const field = [...card.querySelectorAll("[data-key=quantile]")].find((one) => one.dataset.column === name); if (field) field.value = "0.5"; }
  }
  find("pick").value = wrong.join("\n");
  say("pick-said", wrong.length ? "No column is called so: write mean of COLUMN 0 to 110, or by COLUMN F, M." : "");
  changed();
}

// Limits that a question needs and nobody stated: marked at their fields.
function missingLimits() {
  const fields = [];
  for (const card of cards()) {
    const own = questionOf(card);
    const names = new Set(["sum", "mean", "variance", "std", "covariance"].flatMap((key) => (isNamed(own[key]) ? Object.keys(own[key]) : own[key] || [])));
    for (const key of ["quantile", "cdf", "cumulative"]) for (const name of Object.keys(own[key] || {})) if (!listOf(name)) names.add(name);
    for (const name of names) for (const kind of ["low", "high"]) {
      const field = rowOf(name)?.querySelector(`[data-kind=${kind}]`);
      if (field && !field.value.trim()) fields.push(field);
    }
  }
  return fields;
}

function markMissing() {
  const missing = new Set(missingLimits());
  for (const field of form.querySelectorAll("[data-key=bounds]")) {
    if (missing.has(field)) field.setAttribute("aria-invalid", "true"); else field.removeAttribute("aria-invalid");
    field.placeholder = missing.has(field) ? "needed" : "";
  }
}

// How a CSV file is written, and a first line that can be read in several ways.

const fileKeys = ["separator", "decimal", "thousands", "encoding"];
const fileFacts = () => Object.fromEntries(fileKeys.map((key) => [key, find(key).value]).filter(([, value]) => value));

function showFile(answer) {
  const choices = answer?.separators || [];
  find("ask-separator").hidden = !choices.length;
  find("file-settings").hidden = !answer?.written?.length && !choices.length;
  const place = find("file-facts");
  place.hidden = !answer?.written?.length;
  if (!place.hidden) place.textContent = [...answer.written, `${answer.names.length} columns: ${answer.names.slice(0, 8).join(", ")}${answer.names.length > 8 ? ", …" : ""}`].join(" · ");
  if (!choices.length) return;
  const legend = find("ask-separator").querySelector("legend");
  find("ask-separator").replaceChildren(legend, ...choices.map(({ word, text }) => {
    const radio = made("input", { type: "radio", name: "separator-choice", value: word });
    radio.addEventListener("change", () => { find("separator").value = word; computedChanged(); });
    return made("label", {}, radio, ` ${text}`);
  }));
}

const pickActions = { "pick-lines": addLines, "pick-all": () => { columnNames.forEach((name) => pickColumn(name)); changed(); } };
