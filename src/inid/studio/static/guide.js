"use strict";
// The guide: the next step is one highlighted card, the others are folded with their answers.

const steps = () => [...form.querySelectorAll("[data-step]")];
const stepCard = (name) => form.querySelector(`[data-step=${name}]`);
let openedStep = ""; // the card that somebody opened beside the next one
let showsAll = sessionStorage.getItem("inid-all-steps") === "yes";

// What is known of each step after the newest plan: done, or what is missing.
function guide(values, answer) {
  if (page === "explore") return;
  markMissing();
  const isReleased = Boolean(document.querySelector("#outcome .done"));
  const hasTable = Boolean(values.table) && !find("columns").closest(".needs-table").hidden;
  const done = {
    who: hasTable && Boolean(form.elements.unit.value) && !unfinished(false),
    public: picked.size > 0 && !missingLimits().length,
    publish: isAsked(values) && Boolean(answer),
    exact: [...limits.values()].some(Boolean) && Boolean(answer),
    private: Boolean(values.ledger) && Boolean(answer?.affordable || isReleased),
    release: isReleased,
  };
  const [next, text, field] = nextStep(values, answer, done);
  for (const card of steps()) {
    const name = card.dataset.step;
    card.classList.toggle("finished", done[name]);
    card.classList.toggle("next", name === next);
    card.querySelector(".step").textContent = done[name] ? "✓" : String(steps().indexOf(card) + 1);
    card.querySelector(".state").textContent = done[name] ? ", done" : name === next ? ", comes next" : "";
    card.querySelector(".answer").textContent = answers[name](values, answer);
  }
  fold(next);
  say("next-text", text);
  find("next").hidden = !text;
  find("go-next").dataset.to = next;
  find("go-next").hidden = !next || next === "release";
  nextField = field ?? null;
  document.querySelector(".guidance").classList.toggle("after", Boolean(answer?.again));
}

let nextField = null;

function nextStep(values, answer, done) {
  if (!values.table) return ["who", page === "stream" ? "Next: name the stream and its table." : "Next: choose the table."];
  if (!find("ask-separator").hidden) return ["who", "Next: say what separates the names of the first line."];
  if (!form.elements.unit.value) return ["who", "Next: say whose privacy is protected.", form.querySelector("[name=unit]")];
  if (!done.who) return ["who", ""];
  const [missing] = missingLimits();
  if (missing) return ["public", `Next: fill in the ${missing.dataset.kind === "low" ? "lower" : "upper"} limit of ${missing.dataset.column}.`, missing];
  const empty = emptyQuestion(values);
  if (empty) return ["publish", `Next: tick what to publish in the question “${empty}”, or remove it.`];
  if (!picked.size && !asksSomething(values) && !isNamed(values.question)) return ["public", "Next: pick the columns, or tick what to publish."];
  if (page === "stream" && !values.periods) return ["publish", "Next: name the periods, and tick what to publish.", find("periods")];
  if (!isAsked(values)) return ["publish", "Next: tick what to publish."];
  if (!answer) return ["publish", ""];
  if (answer.again) return ["release", "Released. Take it home, or change something for another release."];
  if (!values.ledger) return ["private", "Next: choose a ledger, or make one: it keeps count of the privacy cost of all releases.", find("new-ledger").open ? find("make-ledger") : find("ledger")];
  if (!answer.affordable) return ["private", page === "stream" && !values.stream ? "" : "The ledger has no room for this."];
  return ["release", "All is ready: look at the ranges, then release."];
}

// The answer of each step in a few words, for the line that stays when it is folded.
const answers = {
  who: (values) => [values.stream, values.table, { row: "one row", person: values.person ? `whoever shares ${values.person}` : "one person" }[form.elements.unit.value]].filter(Boolean).join(" · "),
  public: () => [...picked].map((name) => {
    const [low, high] = ["low", "high"].map((kind) => rowOf(name)?.querySelector(`[data-kind=${kind}]`)?.value.trim());
    return low && high ? `${name} ${low} to ${high}` : listOf(name) ? `${name} (${lines(listOf(name)).length > 1 ? `${lines(listOf(name)).length} values` : listOf(name)})` : name;
  }).join(" · "),
  publish: () => cards().map(questionWords).filter((words) => words !== "nothing yet").join(" · "),
  exact: () => { const stated = [...limits.values()].filter(Boolean).length; return stated ? `${stated} ${stated === 1 ? "tolerance" : "tolerances"}` : ""; },
  private: (values) => [...find("promise").value.split(" ").map((key) => (values[key] ? `${key} ${values[key]}` : "")), values.ledger].filter(Boolean).join(" · "),
  release: () => (document.querySelector("#outcome .done")?.textContent ?? ""),
};

// A card stays open while somebody works in it; what has the focus stays where it is on the screen.
function fold(next) {
  const active = document.activeElement;
  const before = active?.getBoundingClientRect().top;
  for (const card of steps()) {
    const name = card.dataset.step;
    const isOpen = showsAll || name === next || name === openedStep || (card.contains(active) && !active.matches(".card-head")) || (name === "release" && Boolean(find("outcome").textContent.trim()));
    card.classList.toggle("folded", !isOpen);
    card.querySelector(".card-head").setAttribute("aria-expanded", String(isOpen));
  }
  const after = active && active !== document.body ? active.getBoundingClientRect().top : before;
  if (after !== before && active.offsetParent) scrollBy(0, after - before);
  find("all-steps").setAttribute("aria-pressed", String(showsAll));
  find("all-steps").textContent = showsAll ? "Show one step at a time" : "Show all steps";
}

function openCard(card, isOpen = true) {
  openedStep = isOpen ? card.dataset.step : "";
  card.classList.toggle("folded", !isOpen);
  card.querySelector(".card-head").setAttribute("aria-expanded", String(isOpen));
}

function goTo(name) {
  const card = stepCard(name);
  openCard(card);
  const first = nextField && card.contains(nextField) ? nextField : [...card.querySelectorAll(".card-body select, .card-body input, .card-body textarea, .card-body summary")].find((field) => isSeen(field) && field.offsetParent);
  (first ?? card).focus({ preventScroll: true });
  (first ?? card).scrollIntoView({ block: "center" });
}

const guideActions = {
  "take-part": () => { find("promise").value = "part"; changed(); goTo("private"); find("part").focus(); },
  "go-next": () => goTo(find("go-next").dataset.to),
};

find("all-steps")?.addEventListener("click", () => {
  showsAll = !showsAll;
  sessionStorage.setItem("inid-all-steps", showsAll ? "yes" : "no");
  openedStep = "";
  fold(steps().find((card) => card.matches(".next"))?.dataset.step);
});
