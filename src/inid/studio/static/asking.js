"use strict";
// Asking the server. Answers come late, twice, out of order or never: one that is no longer wanted is dropped, and what
// somebody changed meanwhile stays.

async function ask(what, body = {}) {
  const answer = await fetch(`api/${what}`, {
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

const turns = new Map(); // of the newest question about each place of the page

// Whatever is under way for a place comes too late from now on.
function outdate(place) {
  turns.set(place, (turns.get(place) ?? 0) + 1);
  return turns.get(place);
}

// The answer for a place; null, or no failure, where something newer was asked for it meanwhile.
async function newest(place, what, body) {
  const turn = outdate(place);
  try {
    const answer = await ask(what, body);
    return turns.get(place) === turn ? answer : null;
  } catch (error) {
    if (turns.get(place) === turn) throw error;
    return null;
  }
}

// Work that writes into the form once an answer is there: until then nothing counts as planned, and nothing is released.

let fillings = 0;

async function filling(work) {
  fillings += 1;
  document.body.dataset.state = "planning";
  try {
    await work();
  } finally {
    fillings -= 1;
    changed();
  }
}

async function settled() {
  while (planning || fillings) await new Promise((done) => setTimeout(done, 20));
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

async function answering(place, work) {
  say(place, "");
  try { await work(); } catch (error) { say(place, error.message); }
}
