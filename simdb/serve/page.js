"use strict";
// All that comes from the store is put into the page as text, never as markup.
const at = (id) => document.getElementById(id);
const made = (name, text, kind) => {
  const one = document.createElement(name);
  if (text !== undefined) one.textContent = text;
  if (kind) one.className = kind;
  return one;
};
let store = { collections: [] };
let asked = 0; // answers to earlier questions are dropped

async function ask(path, body, method) {
  const given = body === undefined ? {} : {
    method: method || "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  };
  const answer = await fetch(path, given);
  const told = await answer.json();
  if (!answer.ok) throw new Error([told.error.message, ...(told.error.help || [])].join("; or "));
  return told;
}

const place = (name) => "collections/" + encodeURIComponent(name);
const keyPath = (name, key) =>
  place(name) + "/items/" + encodeURIComponent(key) + "/group" +
  (typeof key === "number" ? "?integer_key=true" : "");
const chosen = () => store.collections.find((one) => one.name === at("collection").value);

function say(text, isProblem) {
  at("said").textContent = text;
  at("said").className = isProblem ? "problem" : "quiet";
}

function show() {
  const one = chosen();
  if (!one) return;
  const byDistance = one.max_distance !== null;
  const similar = byDistance ? `similar up to a distance of ${one.max_distance}`
    : one.threshold === null ? "similar by comparing all" : `similar from ${one.threshold}`;
  at("settings").textContent = one.problem ||
    `${one.items.toLocaleString("en")} items of kind ${one.kind}, ${similar}`;
  at("settings").title = one.like || "";
  at("bound-label").textContent = byDistance ? "Distance" : "Threshold";
  const isText = one.kind === "text" || one.kind === "string";
  at("item-label").textContent = isText ? "Text" : "Item, as JSON";
  at("bound").value = one.max_distance ?? one.threshold ?? "";
  at("report").href = place(one.name) + "/report";
  at("report").hidden = false;
}

function item() {
  const text = at("item").value;
  if (["text", "string"].includes(chosen().kind)) return text;
  return JSON.parse(text);
}

function bound() {
  const text = at("bound").value.trim(), one = chosen();
  if (text === "") return {};
  return one.max_distance === null ? { threshold: text } : { max_distance: text };
}

async function search() {
  const own = ++asked, one = chosen();
  at("matches").replaceChildren();
  say("searching…");
  try {
    const given = item();
    const told = await ask(place(one.name) + "/search", {
      item: given, ...bound(), limit: Number(at("limit").value),
      guarantee: at("exact").checked ? "exact" : "auto",
    });
    if (own !== asked) return;
    const missing = told.guarantee === "exact" ? "none is missing"
      : told.expected_recall === null ? "some may be missing"
      : `of the items just similar enough, ${(100 * told.expected_recall).toFixed(1)} % are expected to be found`;
    const count = told.matches.length;
    say(`${count} ${count === 1 ? "match" : "matches"}; ${missing}`);
    const cards = told.matches.map((match) => card(one, match));
    at("matches").replaceChildren(...cards.map((each) => each.card));
    for (const each of cards.slice(0, 20)) {
      if (own !== asked) return;
      await each.fill(given);
    }
  } catch (error) {
    if (own === asked) say(error.message, true);
  } finally {
    if (own === asked) document.body.dataset.state = "done";
  }
}

function card(one, match) {
  const whole = made("section", undefined, "card match");
  const head = made("header");
  head.append(made("h2", String(match.key)));
  head.append(made("b", (match.similarity ?? match.distance).toFixed(4)));
  whole.append(head);
  if (match.metadata) whole.append(made("p", JSON.stringify(match.metadata), "quiet"));
  const group = made("p", "", "quiet group");
  const lines = made("div");
  whole.append(group, lines);
  const fill = async (given) => {
    const why = await ask(place(one.name) + "/explain", { item: given, right: match.key, ...bound() });
    lines.replaceChildren(why.differences ? table(why.differences) : facets(why.evidence));
    if (!one.keeps_groups) return;
    const found = await ask(keyPath(one.name, match.key));
    if (found.id === null) return;
    const others = found.keys.slice(0, 20).join(", ");
    group.textContent = `group ${found.id}, ${found.keys.length} items: ${others}`;
  };
  return { card: whole, fill };
}

function table(rows) {
  const whole = made("table", undefined, "lines");
  const whatIs = { " ": "same" };
  for (const [left, mark, right] of rows) {
    const row = made("tr", undefined, whatIs[mark] || "");
    row.append(pieces(left, "del"), pieces(right, "ins"));
    whole.append(row);
  }
  if (!rows.length) {
    const row = made("tr");
    row.append(made("td", "the texts are equal"));
    whole.append(row);
  }
  return whole;
}

function pieces(parts, name) {
  const cell = made("td");
  for (const [text, differs] of parts) cell.append(differs ? made(name, text) : text);
  return cell;
}

function facets(evidence) {
  const whole = made("div");
  const different = evidence.different ? `${evidence.different} different, ` : "";
  whole.append(made("p", `${evidence.unit}: ${evidence.common} common, ${different}${evidence.only_left} only here, ` +
    `${evidence.only_right} only in the stored item`, "quiet"));
  for (const one of evidence.differing || []) {
    const line = made("p");
    line.append(made("code", JSON.stringify(one.what)), ": ");
    line.append(made("del", JSON.stringify(one.left)), " ", made("ins", JSON.stringify(one.right)));
    whole.append(line);
  }
  for (const one of evidence.frequent || [])
    whole.append(made("p", `${JSON.stringify(one.what)}: ${JSON.stringify(one.left)} in both, which many have`, "quiet"));
  return whole;
}

async function keep() {
  const one = chosen();
  try {
    const told = await ask(place(one.name) + "/items", { key: at("key").value, item: item(), ...bound() });
    const like = told.duplicate_of === undefined ? "similar to nothing stored before"
      : `similar to ${told.duplicate_of}`;
    const done = { added: "stored", replaced: "replaced", present: "the key is stored already" };
    say(`${done[told.action] || told.action}; ${like}`);
  } catch (error) {
    say(error.message, true);
  }
}

async function begin() {
  try {
    store = await ask("collections");
    at("title").textContent = store.name;
    document.title = store.name;
    at("collection").replaceChildren(...store.collections.map((one) => made("option", one.name)));
    at("storing").hidden = !store.writes;
    at("limit").max = store.limits.matches;
    at("limit").value = Math.min(10, store.limits.matches);
    if (!store.collections.length) say("the store has no collections");
    const given = new URLSearchParams(location.search);
    if (given.has("collection")) at("collection").value = given.get("collection");
    show();
    if (given.has("item")) {
      at("item").value = given.get("item");
      await search();
    }
  } catch (error) {
    say(error.message, true);
  }
}

at("collection").addEventListener("change", show);
at("form").addEventListener("submit", (event) => { event.preventDefault(); search(); });
at("store").addEventListener("click", keep);
begin();
