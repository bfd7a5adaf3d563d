"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const FAINTEST = 0.02; // Weights below it cannot be seen, and are not drawn.
  const MOST_LISTED = 8;
  const state = {
    sentence: 0, kind: data.kind, unit: data.units[0], layer: data.layers[data.kind],
    heads: new Set(data.heads), pinned: null, pointed: null, focus: ["queries", 0],
  };
  const byId = (id) => document.getElementById(id);
  const map = () => data.sentences[state.sentence][state.unit][state.kind];
  const layers = () => data.layers[state.kind];
  const color = (head) => data.colors[(head - 1) % data.colors.length];
  const other = (side) => (side === "queries" ? "keys" : "queries");

  // Layer and head count from 1, query and key from 0.
  function weight(layer, head, query, key) {
    const { queries, keys, weights } = map();
    const row = ((layer - 1) * data.heads.length + head - 1) * queries.length + query;
    return weights[row * keys.length + key] / data.scale;
  }

  // Tokens are never read as HTML.
  function element(name, attributes = {}, text = null) {
    const svg = name === "line";
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name)
      : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== null) made.textContent = text;
    return made;
  }

  function radios(id, name, choices, titles) {
    for (const [index, choice] of choices.entries()) {
      const input = element("input", { type: "radio", name, value: choice });
      input.checked = choice === state[name];
      input.addEventListener("change", () => { state[name] = choice; rebuild(); });
      const label = element("label");
      label.append(input, titles[index]);
      byId(id).append(label);
    }
  }

  function buildControls() {
    const select = byId("sentence");
    data.texts.forEach(([source], index) => select.append(element("option", { value: index }, source)));
    select.addEventListener("change", () => { state.sentence = Number(select.value); rebuild(); });
    byId("sentences").hidden = data.texts.length < 2;
    radios("kinds", "kind", data.kinds, data.kind_titles);
    radios("units", "unit", data.units, data.units);
    byId("units").hidden = data.units.length < 2;
    for (const head of data.heads) {
      const button = element("button", { type: "button", "data-head": head, style: `--head: ${color(head)}` }, head);
      button.addEventListener("click", () => {
        if (!state.heads.delete(head)) state.heads.add(head);
        draw();
      });
      button.addEventListener("dblclick", () => { state.heads = new Set([head]); draw(); });
      byId("heads").append(button);
    }
    const all = element("button", { type: "button", class: "all" }, "all");
    all.addEventListener("click", () => { state.heads = new Set(data.heads); draw(); });
    byId("heads").append(all);
  }

  // Encoder and decoder may have different numbers of layers.
  function buildLayers() {
    state.layer = Math.min(state.layer, layers());
    const list = byId("layers");
    if (list.querySelectorAll("input").length === layers()) return;
    list.querySelectorAll("label").forEach((label) => label.remove());
    const numbers = Array.from({ length: layers() }, (_, index) => index + 1);
    radios("layers", "layer", numbers, numbers.map(String));
  }

  // Not of each word: from one to the next there is no moment without.
  function letGo(side) {
    byId(side).addEventListener("pointerleave", () => { state.pointed = null; draw(); });
  }

  function buildWords(side) {
    const list = byId(side);
    list.replaceChildren();
    map()[side].forEach((token, index) => {
      const word = element("button", {
        type: "button", class: "word", dir: "auto", title: token, "data-index": index, tabindex: -1,
      }, token);
      const here = [side, index];
      word.addEventListener("pointerenter", (event) => {
        if (event.pointerType === "mouse") { state.pointed = here; draw(); }
      });
      word.addEventListener("focus", () => { state.focus = here; state.pointed = here; draw(); });
      word.addEventListener("blur", () => { state.pointed = null; draw(); });
      word.addEventListener("click", () => {
        state.pinned = same(state.pinned, here) ? null : here;
        state.pointed = state.pinned;
        draw();
      });
      word.addEventListener("keydown", (event) => move(event, side, index));
      const item = element("li");
      const boxes = element("span", { class: "boxes" });
      item.append(...(side === "queries" ? [word, boxes] : [boxes, word]));
      list.append(item);
    });
  }

  const same = (a, b) => a !== null && b !== null && a[0] === b[0] && a[1] === b[1];

  function move(event, side, index) {
    const steps = { ArrowUp: -1, ArrowDown: 1 };
    const ends = { Home: 0, End: map()[side].length - 1 };
    const across = { ArrowLeft: "queries", ArrowRight: "keys" }[event.key];
    let to = null;
    if (event.key in steps) to = [side, index + steps[event.key]];
    else if (event.key in ends) to = [side, ends[event.key]];
    else if (across) to = [across, Math.min(index, map()[across].length - 1)];
    if (!to) return;
    event.preventDefault();
    const word = wordAt(to);
    if (word) word.focus();
  }

  const wordAt = ([side, index]) => byId(side).querySelector(`[data-index="${index}"]`);

  function rebuild() {
    state.pinned = state.pointed = null;
    state.focus = ["queries", 0];
    buildLayers();
    buildWords("queries");
    buildWords("keys");
    const [source, target] = data.texts[state.sentence];
    byId("source").textContent = source;
    byId("target").textContent = target;
    const [left, right] = data.sides[state.kind];
    byId("left-title").textContent = left;
    byId("right-title").textContent = right;
    buildOverview();
    draw();
  }

  function draw() {
    const { queries, keys } = map();
    const heads = data.heads.filter((head) => state.heads.has(head));
    const chosen = state.pointed || state.pinned;
    for (const button of byId("heads").querySelectorAll("[data-head]")) {
      button.setAttribute("aria-pressed", state.heads.has(Number(button.dataset.head)));
    }
    drawLines(heads, chosen, queries.length, keys.length);
    drawWords(heads, chosen);
    drawChosen(heads, chosen);
    for (const button of byId("fields").children) {
      const shown = Number(button.dataset.layer) === state.layer && state.heads.has(Number(button.dataset.head));
      button.setAttribute("aria-current", shown);
    }
  }

  function drawLines(heads, chosen, queries, keys) {
    const svg = byId("lines");
    const row = parseFloat(getComputedStyle(document.documentElement).fontSize) * 1.75;
    svg.style.height = `${row * Math.max(queries, keys)}px`;
    const lines = document.createDocumentFragment();
    heads.forEach((head, number) => {
      const shift = row * 0.5 * ((number + 0.5) / heads.length - 0.5);
      for (let query = 0; query < queries; query += 1) {
        for (let key = 0; key < keys; key += 1) {
          if (chosen && (chosen[0] === "queries" ? query : key) !== chosen[1]) continue;
          const strength = weight(state.layer, head, query, key);
          if (strength < FAINTEST) continue;
          lines.append(element("line", {
            x1: 0, x2: "100%", y1: row * (query + 0.5) + shift, y2: row * (key + 0.5) + shift,
            stroke: color(head), "stroke-opacity": strength,
            "data-head": head, "data-query": query, "data-key": key,
          }));
        }
      }
    });
    svg.replaceChildren(lines);
  }

  // What the chosen word and word `index` of the other side have to do with each other.
  function met(chosen, head, index) {
    return chosen[0] === "queries" ? weight(state.layer, head, chosen[1], index)
      : weight(state.layer, head, index, chosen[1]);
  }

  function drawWords(heads, chosen) {
    for (const side of ["queries", "keys"]) {
      byId(side).classList.toggle("lone", chosen !== null);
      for (const word of byId(side).querySelectorAll(".word")) {
        const index = Number(word.dataset.index);
        const beside = chosen !== null && chosen[0] === other(side);
        const strengths = beside ? heads.map((head) => met(chosen, head, index)) : [];
        word.classList.toggle("chosen", same(chosen, [side, index]));
        word.classList.toggle("met", strengths.some((strength) => strength >= 0.1));
        word.setAttribute("aria-pressed", same(state.pinned, [side, index]));
        word.tabIndex = same(state.focus, [side, index]) ? 0 : -1;
        word.parentElement.querySelector(".boxes").replaceChildren(
          ...strengths.map((strength, number) => element("i", {
            style: `background: ${color(heads[number])}; opacity: ${strength}`,
          })),
        );
      }
    }
  }

  function drawChosen(heads, chosen) {
    const panel = byId("chosen");
    panel.replaceChildren();
    if (!chosen || !heads.length) return;
    const [side, index] = chosen;
    const looks = side === "queries";
    const found = map()[other(side)].map((token, place) => {
      const total = heads.reduce((sum, head) => sum + met(chosen, head, place), 0);
      return [token, total / heads.length];
    });
    found.sort((a, b) => b[1] - a[1]);
    const title = element("h2");
    title.append(element("bdi", {}, map()[side][index]), looks ? " looks at" : " is looked at by");
    const table = element("table");
    for (const [token, strength] of found.slice(0, MOST_LISTED)) {
      if (strength < FAINTEST) continue;
      const line = element("tr");
      line.append(element("td", { dir: "auto", title: token }, token), element("td", {}, `${(100 * strength).toFixed(1)} %`));
      table.append(line);
    }
    const of = heads.length === 1 ? `head ${heads[0]}` : `the mean of ${heads.length} heads`;
    panel.append(title, table, element("p", {}, `Layer ${state.layer}, ${of}.`));
  }

  function buildOverview() {
    const { queries, keys } = map();
    const fields = byId("fields");
    fields.style.gridTemplateColumns = `repeat(${data.heads.length}, minmax(1.6rem, 1fr))`;
    fields.replaceChildren();
    for (let layer = 1; layer <= layers(); layer += 1) {
      for (const head of data.heads) {
        const name = `Layer ${layer}, head ${head}`;
        const button = element("button", {
          type: "button", title: name, "aria-label": name, "data-layer": layer, "data-head": head, style: `--head: ${color(head)}`,
        });
        const canvas = element("canvas", { width: keys.length, height: queries.length });
        paint(canvas, layer, head);
        button.append(canvas);
        button.addEventListener("click", () => show(layer, head));
        fields.append(button);
      }
    }
  }

  function paint(canvas, layer, head) {
    const context = canvas.getContext("2d");
    context.fillStyle = color(head);
    for (let query = 0; query < canvas.height; query += 1) {
      for (let key = 0; key < canvas.width; key += 1) {
        context.globalAlpha = weight(layer, head, query, key);
        context.fillRect(key, query, 1, 1);
      }
    }
  }

  function show(layer, head) {
    state.layer = layer;
    state.heads = new Set([head]);
    document.querySelector(`input[name="layer"][value="${layer}"]`).checked = true;
    draw();
  }

  // What the address says after "#": kind, unit, layer, heads, and the word to keep,
  // as in "#kind=memory&layer=2&heads=1,3&word=it". What is not there is passed over.
  function readAddress() {
    const asked = new URLSearchParams(location.hash.slice(1));
    if (data.kinds.includes(asked.get("kind"))) state.kind = asked.get("kind");
    if (data.units.includes(asked.get("unit"))) state.unit = asked.get("unit");
    const layer = Number(asked.get("layer"));
    if (Number.isInteger(layer) && layer >= 1 && layer <= layers()) state.layer = layer;
    const heads = (asked.get("heads") || "").split(",").map(Number);
    const known = heads.filter((head) => data.heads.includes(head));
    if (known.length) state.heads = new Set(known);
    return asked.get("word");
  }

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    state.pinned = state.pointed = null;
    draw();
  });
  const asked = readAddress();
  buildControls();
  letGo("queries");
  letGo("keys");
  rebuild();
  const place = map().queries.indexOf(asked);
  if (place >= 0) {
    state.pinned = state.focus = ["queries", place];
    draw();
  }
})();
