"use strict";
// All text is set by textContent. Styles are set by the object model, which the content
// security policy allows.
const element = (id) => document.getElementById(id);
const [form, from, to, swap, source, backdrop, target, status, key, count, copy, doubt] =
  ["form", "from", "to", "swap", "source", "backdrop", "target", "status", "key", "count",
    "copy", "doubt"].map(element);
// Milliseconds after the last key before the text is translated.
const PAUSE = 600;
// Mean probability of the subwords of a sentence below which it is marked as uncertain.
const CERTAIN = 0.4;
const MOST_ALTERNATIVES = 3;
// Limits of this server, as /frontend/settings has them.
let settings = {};
let languages = [];
// The translation that is shown: its text, languages, and sentences. A sentence has its
// alignment as soon as one of its words was pointed at.
let shown = null;
// The request in flight, and the timer of the next one.
let inFlight = null;
let timer = 0;
// The word of the translation whose source words are marked.
let chosen = null;
// Whether the reader has pointed at a word, or was shown what that does.
let knowsAttention = false;

class RefusedError extends Error {
  constructor(message, seconds) {
    super(message);
    this.seconds = seconds;
  }
}

async function ask(path, fields, signal) {
  const body = key.value ? {...fields, api_key: key.value} : fields;
  const response = await fetch(path, fields && {
    method: "POST",
    headers: {"Content-Type": "application/json"},
    body: JSON.stringify(body),
    signal,
  });
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  throw new RefusedError(
    answer.error || `The server answered ${response.status}.`,
    response.status === 429 ? Number(response.headers.get("Retry-After")) : 0,
  );
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

for (const select of [from, to]) {
  select.addEventListener("change", () => {
    showLanguages();
    translate();
  });
}

swap.addEventListener("click", () => {
  const [first, second] = [from.value, to.value];
  from.value = second;
  showLanguages();
  to.value = first;
  // What was written since then stays.
  if (shown?.text === source.value) source.value = shown.translation;
  showLanguages();
  clear();
  translate();
});

function stop() {
  clearTimeout(timer);
  inFlight?.abort();
  inFlight = null;
  target.removeAttribute("aria-busy");
}

function clear() {
  stop();
  forget();
  copyText();
  say("");
}

// Removes the translation of a text or of languages that are others now.
function forget() {
  shown = null;
  target.replaceChildren();
  element("others").hidden = doubt.hidden = copy.disabled = true;
}

// Says why there is no translation.
function refuse(text) {
  forget();
  say(text, true);
}

// Copies the text below the marks, so that both are as high as it needs.
function copyText() {
  chosen?.classList.remove("chosen");
  chosen = null;
  backdrop.replaceChildren(source.value);
  const size = [...source.value].length;
  const limit = settings.charLimit > 0 ? settings.charLimit : 0;
  count.textContent = limit ? `${size.toLocaleString()} / ${limit.toLocaleString()}` :
    size.toLocaleString();
  count.classList.toggle("over", limit > 0 && size > limit);
  return limit > 0 && size > limit;
}

source.addEventListener("input", () => {
  copyText();
  stop();
  copy.disabled = true;
  if (source.value.trim()) {
    target.setAttribute("aria-busy", "true");
    timer = setTimeout(translate, PAUSE);
  } else {
    clear();
  }
});
source.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});
key.addEventListener("change", () => translate());
element("clear").addEventListener("click", () => {
  source.value = "";
  clear();
  source.focus();
});
copy.addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(shown.translation);
  } catch {
    // Pages that were not sent by https may not; selected text may be copied anywhere.
    getSelection().selectAllChildren(target);
    document.execCommand("copy");
  }
  copy.textContent = "Copied";
  setTimeout(() => { copy.textContent = "Copy"; }, 1500);
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  translate();
});

// Translates the text as it is now. What an earlier call waits for is not shown any more.
async function translate() {
  stop();
  const q = source.value;
  if (!q.trim()) return clear();
  if (copyText()) {
    const limit = settings.charLimit.toLocaleString();
    return refuse(`The text is longer than ${limit} characters. Shorten it.`);
  }
  if (settings.keyRequired && !key.value) return refuse("This server needs an API key.");
  const own = inFlight = new AbortController();
  say("Translating …");
  target.setAttribute("aria-busy", "true");
  const limit = settings.alternativesLimit;
  let answer;
  try {
    answer = await ask("translate", {
      q, source: from.value, target: to.value, sentences: true,
      alternatives: limit >= 0 ? Math.min(limit, MOST_ALTERNATIVES) : MOST_ALTERNATIVES,
    }, own.signal);
  } catch (error) {
    if (own !== inFlight) return;
    stop();
    if (!error.seconds) return refuse(error.message);
    refuse(`${error.message}. Next attempt in ${error.seconds} s.`);
    timer = setTimeout(translate, 1000 * error.seconds);
    return;
  }
  if (own !== inFlight) return;
  stop();
  show(q, answer);
}

function show(text, answer) {
  copyText();
  const hadFocus = target.contains(document.activeElement);
  const detected = answer.detectedLanguage;
  shown = {
    text,
    translation: answer.translatedText,
    source: detected ? detected.language : from.value,
    target: to.value,
    sentences: answer.sentences.map(([first, second, space], index) => ({
      source: first, translation: second, space, alignment: null,
      isDoubtful: answer.confidences[index] !== null && answer.confidences[index] < CERTAIN,
    })),
  };
  const name = detected && languages.find((each) => each.code === detected.language);
  say(name ? `Detected: ${name.name} (${Math.round(detected.confidence)} %)` : "");
  let start = 0;
  for (const sentence of shown.sentences) {
    sentence.start = start;
    start += sentence.source.length + sentence.space.length;
  }
  target.replaceChildren(...shown.sentences.flatMap((sentence, index) =>
    [...wordsOf(sentence, index), sentence.space]));
  const first = target.querySelector(".word");
  if (first) first.tabIndex = 0;
  if (hadFocus) first?.focus();
  copy.disabled = !shown.translation;
  const doubtful = shown.sentences.filter((each) => each.isDoubtful).length;
  doubt.hidden = !doubtful;
  doubt.textContent = `Uncertain: ${doubtful} of ${shown.sentences.length} ` +
    `${shown.sentences.length > 1 ? "sentences" : "sentence"}, with a wavy line.`;
  const alternatives = answer.alternatives || [];
  element("alternatives").replaceChildren(...alternatives.map((each) => {
    const item = document.createElement("li");
    item.textContent = each;
    return item;
  }));
  element("others").hidden = !alternatives.length;
  // Where requests are not rationed, one shows what pointing at a word does.
  const example = [...target.querySelectorAll(".word")].find((each) => /\p{L}/u.test(each.textContent));
  const rationed = settings.requestsPerMinute > 0 || key.value;
  if (example && !knowsAttention && !rationed) mark(example, true);
}

function wordsOf({translation, isDoubtful}, sentence) {
  const segmenter = new Intl.Segmenter(shown.target, {granularity: "word"});
  return [...segmenter.segment(translation)].map(({segment, index}) => {
    if (!segment.trim()) return segment;
    const span = document.createElement("span");
    span.className = isDoubtful ? "word doubtful" : "word";
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

// Marks the source words of a word of the translation; of null, none.
async function mark(word, isExample = false) {
  copyText();
  chosen = word;
  if (!word || !shown || source.value !== shown.text) return;
  word.classList.add("chosen");
  knowsAttention = true;
  const sentence = shown.sentences[word.dataset.sentence];
  if (shown.source === shown.target || !sentence.source || !sentence.translation) return;
  let alignment;
  try {
    alignment = await alignmentOf(sentence);
  } catch (error) {
    if (chosen === word && !isExample) say(error.message, true);
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
  if (asked.has("q")) source.value = asked.get("q");
  copyText();
  if (source.value) translate();
}

(async () => {
  try {
    settings = await ask("frontend/settings");
    element("key-label").hidden = !settings.apiKeys;
    languages = await ask("languages");
    showLanguages();
    copyText();
    fillFromAddress();
  } catch (error) {
    say(error.message, true);
  }
})();
