"use strict";
// The guide: which steps are done, what comes next, and a tour of the page.

const stepItems = () => [...document.querySelectorAll(".steps li")];
const sectionOf = (name) => document.querySelector(`[data-step=${name}]`);

// What is known of each step after the newest plan: done, or what is missing.
function guide(values, answer) {
  if (page === "explore") return;
  const isReleased = Boolean(document.querySelector("#outcome .done"));
  const done = {
    who: Boolean(values.table) && !unfinished(false),
    public: Boolean(values.bounds || listed().length || answer),
    publish: isAsked(values),
    exact: Boolean(answer),
    private: Boolean(answer),
    year: Boolean(values.ledger) && Boolean(answer?.affordable || isReleased),
    release: isReleased,
  };
  for (const item of stepItems()) {
    item.classList.toggle("finished", done[item.dataset.for]);
    item.querySelector(".state").textContent = done[item.dataset.for] ? ", done" : "";
  }
  document.body.classList.toggle("begun", isAsked(values));
  const [name, text] = nextStep(values, answer, isReleased);
  say("next-text", text);
  find("next").hidden = !text;
  find("go-next").dataset.to = name;
  find("go-next").hidden = !name;
  say("glance", answer?.glance || "");
  document.querySelector(".guidance").classList.toggle("after", Boolean(answer?.again));
}

function nextStep(values, answer, isReleased) {
  if (!values.table) return ["who", "Next: choose the table."];
  if (unfinished(false)) return ["who", ""];
  const empty = emptyQuestion(values);
  if (empty) return ["publish", `Next: tick what to publish in the question “${empty}”, or remove it.`];
  if (!isAsked(values)) return ["publish", page === "stream" && !values.periods ? "Next: name the periods, and tick what to publish." : "Next: tick what to publish."];
  if (!answer) return ["public", ""];
  if (answer.again) return ["release", "Released. Take it home, or change something for another release."];
  if (!answer.affordable) return ["year", "The ledger has no room for this."];
  if (!values.ledger) return ["year", "Next: choose a ledger, or make one: it keeps count of the privacy cost of all releases."];
  return ["", "All is ready: look at the errors, then release."];
}

function goTo(name) {
  const section = sectionOf(name);
  section.scrollIntoView({ block: "start" });
  const first = [...section.querySelectorAll("select, input, textarea, summary")].find((field) => isSeen(field) && field.offsetParent);
  (first ?? section).focus({ preventScroll: true });
}

// The tour: one step after the other, each shown beside its words.

let tourAt = -1;

function tour(at) {
  const items = stepItems();
  for (const section of document.querySelectorAll("[data-step]")) section.classList.remove("shown");
  tourAt = at >= 0 && at < items.length ? at : -1;
  find("tour-box").hidden = tourAt < 0;
  find("tour").hidden = tourAt >= 0;
  document.body.classList.toggle("touring", tourAt >= 0);
  if (tourAt < 0) { find("tour").focus(); return; }
  const { for: name, title, tour: words } = items[tourAt].dataset;
  say("tour-count", `${tourAt + 1} of ${items.length}: ${title}`);
  find("tour-text").textContent = words;
  find("tour-back").disabled = tourAt === 0;
  find("tour-next").textContent = tourAt === items.length - 1 ? "Done" : "Next";
  sectionOf(name).classList.add("shown");
  sectionOf(name).scrollIntoView({ block: "start" });
  find("tour-text").focus({ preventScroll: true });
}

const guideActions = {
  tour: () => tour(0),
  "tour-next": () => tour(tourAt + 1),
  "tour-back": () => tour(tourAt - 1),
  "tour-end": () => tour(-1),
  "take-part": () => { find("promise").value = "part"; changed(); goTo("private"); find("part").focus(); },
  "go-next": () => goTo(find("go-next").dataset.to),
};
