"use strict";
// Lists of codes, pasted or brought as a file, compared with another public list; and bands of numbers.

let listArea = null; // the field whose values are listed
let broughtColumns = [];

const lines = (text) => text.split(text.trim().includes("\n") ? "\n" : ",").map((one) => one.trim()).filter(Boolean);

function openList(column) {
  outdate("codes");
  outdate("compared");
  listArea = rowOf(column).querySelector(".list");
  find("list-title").textContent = find("list-label").textContent = `Public values of ${column}`;
  find("list-text").value = listArea.value.includes("\n") ? listArea.value : lines(listArea.value).join("\n");
  find("list-file").value = find("list-other").value = "";
  find("list-pick").hidden = true;
  find("list-found").replaceChildren();
  say("list-error", "");
  find("list-dialog").showModal();
  find("list-text").focus();
}

function closeList(isDone) {
  const values = lines(find("list-text").value);
  if (isDone) {
    listArea.value = values.length > 6 || values.some((one) => one.includes(",")) ? values.join("\n") : values.join(", ");
    clearHeld(listArea.dataset.column);
    changed();
  }
  find("list-dialog").close();
  listArea.focus();
}

function clearHeld(column) {
  for (const tick of form.querySelectorAll("[data-picks] input")) if (tick.dataset.column === column) delete tick.dataset.held;
}

async function bringList() {
  const [file] = find("list-file").files;
  find("list-pick").hidden = true;
  if (!file) return;
  await answering("list-error", async () => {
    if (file.size > 2 ** 21) throw new Error("The file is too long for a list of codes.");
    const answer = await newest("codes", "codes", { text: await file.text(), table: find("table").value });
    if (!answer) return; // another file was brought, or another list opened
    broughtColumns = answer.columns;
    options(find("list-column"), broughtColumns.map((column, at) => ({ name: String(at), shown: column.name || `column ${at + 1}` })));
    find("list-names").checked = broughtColumns.length > 1 || listArea.dataset.column.toLowerCase() === broughtColumns[0].name.toLowerCase();
    find("list-pick").hidden = false;
    find("list-column").focus();
  });
}

function brought() {
  const column = broughtColumns[Number(find("list-column").value)];
  return find("list-names").checked ? column.values : [...new Set([column.name, ...column.values])];
}

async function compareList(other) {
  await answering("list-error", async () => {
    const answer = await newest("compared", "compare", { here: find("list-text").value, there: other });
    if (!answer) return;
    const all = answer.agree + answer.here.length;
    const place = find("list-found");
    place.replaceChildren(made("p", { class: answer.here.length ? "warning" : "good-news" }, `${answer.agree} of ${all} values stand in the other list.`));
    const near = new Map(answer.near);
    const listOfWords = (title, words) => { if (words.length) place.append(made("h3", {}, title), made("ul", {}, ...words.map((word) => made("li", {}, word)))); };
    listOfWords("Only here", answer.here.map((word) => (near.has(word) ? `${word} (there: ${near.get(word)})` : word)));
    listOfWords("Only there", answer.there);
    if (!near.size) return;
    const correct = made("button", { type: "button" }, `Take over ${near.size === 1 ? "the spelling" : `${near.size} spellings`} of the other list`);
    correct.addEventListener("click", () => {
      find("list-text").value = lines(find("list-text").value).map((one) => near.get(one) ?? one).join("\n");
      compareList(other);
      find("list-text").focus();
    });
    place.append(correct);
  });
}

// Bands: of a histogram its edges, else a computed column with its public values.

let bandsFor = null;

function openBands(button) {
  outdate("bands");
  const row = button.closest(".pair, .bins-box");
  bandsFor = { column: row?.querySelector("select")?.value ?? button.dataset.column, area: row?.querySelector("textarea, input") };
  if (!bandsFor.column) return row.querySelector("select").focus();
  find("bands-title").textContent = `Bands of ${bandsFor.column}`;
  find("bands-note").textContent = row ? `They become the bins of ${row.matches(".pair") ? "the histogram" : "the rows"}.` : `They become a column named ${bandsFor.column} band, with its public values: it can be ticked as a group, and in tables. Rows beyond the bands count as other.`;
  const own = rowOf(bandsFor.column);
  find("bands-lower").value = own?.querySelector("[data-kind=low]")?.value || "";
  find("bands-upper").value = own?.querySelector("[data-kind=high]")?.value || "";
  find("bands-width").value = find("bands-edges").value = "";
  say("bands-found", "");
  say("bands-error", "");
  find("bands-dialog").showModal();
  (["bands-lower", "bands-upper"].map(find).find((field) => !field.value) ?? find("bands-width")).focus();
}

const bandsBody = () => ({ column: bandsFor.column, computed: !bandsFor.area, lower: find("bands-lower").value, upper: find("bands-upper").value, width: find("bands-width").value, edges: find("bands-edges").value, integral: find("bands-whole").checked });

async function previewBands() {
  outdate("bands");
  if (!find("bands-edges").value.trim() && !find("bands-width").value.trim()) return;
  await answering("bands-error", async () => {
    const answer = await newest("bands", "bands", bandsBody());
    if (answer) say("bands-found", answer.names.join(" · "));
  });
}

async function makeBands() {
  await answering("bands-error", async () => {
    const answer = await newest("bands", "bands", bandsBody());
    if (!answer || !find("bands-dialog").open) return; // they were changed or given up, or another column's came
    find("bands-dialog").close();
    if (bandsFor.area) { bandsFor.area.value = answer.edges; bandsFor.area.dataset.touched = "yes"; changed(); } else {
      const others = find("derive").value.split("\n").filter((line) => line.trim() && line.split("=")[0].trim() !== answer.name);
      find("derive").value = [...others, `${answer.name} = ${answer.formula}`].join("\n");
      await computedChanged({ [answer.name]: answer.text });
    }
    (bandsFor.area ?? rowOf(answer.name)?.querySelector(".list"))?.focus();
  });
}

const listActions = {
  "list-cancel": () => closeList(false),
  "list-done": () => closeList(true),
  "list-use": () => { find("list-text").value = brought().join("\n"); find("list-text").focus(); },
  "list-compare-file": () => compareList(brought().join("\n")),
  "list-compare": () => compareList(find("list-other").value),
  "bands-cancel": () => { outdate("bands"); find("bands-dialog").close(); },
  "bands-done": makeBands,
};
