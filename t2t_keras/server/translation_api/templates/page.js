"use strict";
// All text is set by textContent. Styles are set by the object model, which the content
// security policy allows.
const element = (id) => document.getElementById(id);
const [form, from, to, swap, source, backdrop, target, status, key] =
  ["form", "from", "to", "swap", "source", "backdrop", "target", "status", "key"].map(element);
let languages = [];
// The translation that is shown: its text, languages, and sentences. A sentence has its
// alignment as soon as one of its words was pointed at.
let shown = null;
// Number of the last request, so that an answer that comes late is not shown.
let latest = 0;

async function ask(path, fields) {
  const body = key.value ? {...fields, api_key: key.value} : fields;
  const response = await fetch(path, fields && {
    method: "POST",
    headers: {"Content-Type": "application/json"},
    body: JSON.stringify(body),
  });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error || `The server answered ${response.status}.`);
  return answer;
}

function say(text, isError = false) {
  status.textContent = text;
  status.classList.toggle("error", isError);
}

const targetsOf = (code) => {
  const found = languages.find((each) => each.code === code);
  const codes = found ? found.targets : languages.flatMap((each) =>
    each.targets.filter((other) => other !== each.code));
  return [...new Set(codes)].filter((each) => each !== code);
};

function fill(select, codes, names) {
  const before = select.value;
  select.replaceChildren(...codes.map((code) => new Option(names[code] || code, code)));
  if (codes.includes(before)) select.value = before;
}

function showLanguages() {
  const names = Object.fromEntries(languages.map((each) => [each.code, each.name]));
  const sources = languages.map((each) => each.code).filter((code) => targetsOf(code).length);
  fill(from, sources.length > 1 ? ["auto", ...sources] : sources, {...names, auto: "Detect"});
  fill(to, targetsOf(from.value), names);
  swap.disabled = !targetsOf(to.value).includes(from.value);
}

from.addEventListener("change", showLanguages);
to.addEventListener("change", showLanguages);

swap.addEventListener("click", () => {
  const [first, second] = [from.value, to.value];
  from.value = second;
  showLanguages();
  to.value = first;
  if (shown) source.value = shown.translation;
  showLanguages();
  clear();
});

function clear() {
  latest += 1;
  shown = null;
  target.replaceChildren();
  element("others").hidden = true;
  mark(null);
  say("");
}

source.addEventListener("input", () => mark(null));
source.addEventListener("scroll", () => { backdrop.scrollTop = source.scrollTop; });
source.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  clear();
  const number = latest;
  const q = source.value;
  if (!q.trim()) return;
  say("Translating …");
  try {
    const answer = await ask("translate", {
      q, source: from.value, target: to.value, alternatives: 3, sentences: true,
    });
    if (number === latest) show(q, answer);
  } catch (error) {
    if (number === latest) say(error.message, true);
  }
});

function show(text, answer) {
  const detected = answer.detectedLanguage;
  shown = {
    text,
    translation: answer.translatedText,
    source: detected ? detected.language : from.value,
    target: to.value,
    sentences: answer.sentences.map(([first, second, space]) =>
      ({source: first, translation: second, space, alignment: null})),
  };
  const name = detected && languages.find((each) => each.code === detected.language);
  say(name ? `Detected: ${name.name} (${Math.round(detected.confidence)} %)` : "");
  let start = 0;
  for (const sentence of shown.sentences) {
    sentence.start = start;
    start += sentence.source.length + sentence.space.length;
  }
  target.replaceChildren(...shown.sentences.flatMap((sentence, index) =>
    [...wordsOf(sentence.translation, index), sentence.space]));
  const first = target.querySelector(".word");
  if (first) first.tabIndex = 0;
  element("alternatives").replaceChildren(...answer.alternatives.map((each) => {
    const item = document.createElement("li");
    item.textContent = each;
    return item;
  }));
  element("others").hidden = !answer.alternatives.length;
}

function wordsOf(text, sentence) {
  const segmenter = new Intl.Segmenter(shown.target, {granularity: "word"});
  return [...segmenter.segment(text)].map(({segment, index}) => {
    if (!segment.trim()) return segment;
    const span = document.createElement("span");
    span.className = "word";
    span.textContent = segment;
    span.tabIndex = -1;
    Object.assign(span.dataset, {sentence, index});
    return span;
  });
}

// Gaps and words in turn, as /attention returns them, as words with their offsets.
function offsetsOf(parts) {
  let offset = 0;
  const words = [];
  parts.forEach((part, number) => {
    if (number % 2) words.push([offset, offset + part.length]);
    offset += part.length;
  });
  return words;
}

async function alignmentOf(sentence) {
  sentence.alignment ||= ask("attention", {
    q: sentence.source, translation: sentence.translation,
    source: shown.source, target: shown.target,
  });
  try {
    return await sentence.alignment;
  } catch (error) {
    sentence.alignment = null;
    throw error;
  }
}

let chosen = null;

// Marks the source words of a word of the translation; of null, none.
async function mark(word) {
  chosen?.classList.remove("chosen");
  chosen = word;
  backdrop.replaceChildren();
  if (!word || !shown || source.value !== shown.text) return;
  word.classList.add("chosen");
  const sentence = shown.sentences[word.dataset.sentence];
  if (shown.source === shown.target || !sentence.source || !sentence.translation) return;
  let alignment;
  try {
    alignment = await alignmentOf(sentence);
  } catch (error) {
    if (chosen === word) say(error.message, true);
    return;
  }
  if (chosen !== word) return;
  const at = Number(word.dataset.index);
  const row = offsetsOf(alignment.translation).findIndex(([start, end]) => start <= at && at < end);
  const weights = alignment.weights[row];
  if (weights) highlight(sentence.start, offsetsOf(alignment.source), weights);
}

function highlight(start, words, weights) {
  const most = Math.max(...weights);
  const parts = [];
  let position = 0;
  words.forEach(([first, last], number) => {
    const share = weights[number] / most;
    if (!(share > 0.05)) return;
    const marked = document.createElement("mark");
    marked.textContent = shown.text.slice(start + first, start + last);
    marked.style.backgroundColor = `rgba(var(--mark), ${0.6 * share})`;
    marked.dataset.weight = weights[number];
    parts.push(shown.text.slice(position, start + first), marked);
    position = start + last;
  });
  backdrop.replaceChildren(...parts, shown.text.slice(position));
  backdrop.scrollTop = source.scrollTop;
}

target.addEventListener("mouseover", (event) => mark(event.target.closest(".word")));
target.addEventListener("mouseleave", () => mark(null));
target.addEventListener("focusin", (event) => {
  const word = event.target.closest(".word");
  if (!word) return;
  for (const each of target.querySelectorAll('.word[tabindex="0"]')) each.tabIndex = -1;
  word.tabIndex = 0;
  mark(word);
});
target.addEventListener("focusout", () => mark(null));
target.addEventListener("keydown", (event) => {
  const words = [...target.querySelectorAll(".word")];
  const at = words.indexOf(document.activeElement);
  const steps = {ArrowLeft: -1, ArrowRight: 1, Home: -at, End: words.length - 1 - at};
  if (event.key === "Escape") {
    source.focus();
  } else if (at >= 0 && event.key in steps) {
    event.preventDefault();
    words[at + steps[event.key]]?.focus();
  }
});

// Search keywords of browsers and bookmarks open /?source=en&target=de&q=TEXT.
function fillFromAddress() {
  const asked = new URLSearchParams(location.search);
  for (const [select, name] of [[from, "source"], [to, "target"]]) {
    const known = [...select.options].some((each) => each.value === asked.get(name));
    if (known) select.value = asked.get(name);
    showLanguages();
  }
  source.value = asked.get("q") || "";
  if (source.value) form.requestSubmit();
}

(async () => {
  try {
    const settings = await ask("frontend/settings");
    element("key-label").hidden = !settings.apiKeys;
    if (settings.charLimit > 0) source.maxLength = settings.charLimit;
    languages = await ask("languages");
    showLanguages();
    fillFromAddress();
  } catch (error) {
    say(error.message, true);
  }
})();
