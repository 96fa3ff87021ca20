// The grids of points: filters, radius, and all that is known of the chosen point. Counts, colors and sentences come
// from the page's data; nothing is computed here. Every text is set as text, never as markup.
(() => {
  "use strict";
  const MIDDLE = 128, REACH = 126; // a gray of a difference: MIDDLE + REACH * change / largest change

  function make(name, attributes = {}, text = "") {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text) element.textContent = text;
    return element;
  }

  // The state at radius k: the last run that begins there or before.
  function stateAt(runs, k) {
    let place = 0;
    while (place + 2 < runs.length && runs[place + 2] <= k) place += 2;
    return runs[place + 1];
  }

  function choice(tools, label, words, onchange) {
    const box = make("label", {}, label), select = make("select", { "aria-label": label });
    words.forEach((word, k) => select.append(make("option", { value: k }, word)));
    select.addEventListener("change", () => onchange(Number(select.value)));
    box.append(select);
    if (words.length > 1) tools.append(box);
    return select;
  }

  function explore(box, number) {
    const data = JSON.parse(box.querySelector("script").textContent);
    const [tools, legend, said, grid, detail, byClass] =
      ["tools", "states", "said", "tiles", "detail", "by-class"].map((name) => box.querySelector("." + name));
    const count = data.rows.length;
    const now = { view: 0, k: data.at, label: 0, sort: 0, state: -1, point: -1 };
    const images = {};
    const view = () => data.views[now.view];
    const state = (point) => stateAt(view().runs[point], now.k);
    const keys = () => ({ ...view().keys, ...data.keys });

    // One rule gives every tile its picture; the policy of the page forbids style attributes in its text.
    const inputs = data.sheets.inputs;
    if (inputs) {
      const sheet = document.styleSheets[0];
      const size = `${100 * inputs.columns}% ${100 * inputs.rows}%`;
      const rule = `.explorer.number-${number} .tile i { background-image: url("${inputs.source}"); background-size: ${size}; }`;
      sheet.insertRule(rule, sheet.cssRules.length);
    }
    box.classList.add(`number-${number}`);
    box.classList.toggle("many", count > 300);
    box.classList.toggle("few", count <= 100);
    const longest = Math.max(...data.classes.map((name) => name.length));
    box.style.setProperty("--names", `${Math.min(16, longest + 2)}ch`);

    const tiles = data.rows.map((row, point) => {
      const tile = make("button", { type: "button", class: "tile", role: "option", tabindex: "-1", "aria-selected": "false" });
      if (inputs) {
        const inner = make("i");
        const across = point % inputs.columns, down = Math.floor(point / inputs.columns);
        const part = (place, all) => (all > 1 ? (100 * place) / (all - 1) : 0);
        inner.style.backgroundPosition = `${part(across, inputs.columns)}% ${part(down, inputs.rows)}%`;
        tile.append(inner);
      }
      tile.addEventListener("click", () => choose(point));
      return tile;
    });

    const views = choice(tools, "Show", data.views.map((own) => own.name), (k) => {
      const old = sorting.value;
      now.view = k;
      fillSorting();
      if ([...sorting.options].some((option) => option.value === old)) sorting.value = old;
      now.sort = Number(sorting.value);
      paint(true);
    });
    const labels = choice(tools, "Class", ["all", ...data.classes], (k) => { now.label = k; paint(true); });
    const sorting = make("select", { "aria-label": "Sort by" });
    sorting.addEventListener("change", () => { now.sort = Number(sorting.value); paint(true); });
    const sortBox = make("label", {}, "Sort by");
    sortBox.append(sorting);
    tools.append(sortBox);
    function fillSorting() {
      const words = ["number", ...Object.keys(keys())];
      sorting.replaceChildren(...words.map((word, k) => make("option", { value: k }, word)));
      sorting.value = Math.min(now.sort, words.length - 1);
    }
    fillSorting();

    const slider = make("input", { type: "range", "aria-label": data.radius, min: 0, max: data.radii.length - 1, step: 1 });
    const shown = make("output");
    if (data.radii.length > 1) {
      const field = make("label", { class: "radius" }, data.radius);
      slider.value = data.at;
      const back = make("button", { type: "button" }, `back to ${data.threat}`);
      back.addEventListener("click", () => { slider.value = data.at; move(); });
      slider.addEventListener("input", move);
      field.append(slider, shown);
      tools.append(field, back);
    }
    function move() { now.k = Number(slider.value); paint(false); }

    const toggles = data.states.map(([name, meaning, tone], k) => {
      const button = make("button", { type: "button", class: `tone-${tone}`, title: meaning, "aria-pressed": "false" });
      button.addEventListener("click", () => { now.state = now.state === k ? -1 : k; paint(true); });
      legend.append(button);
      return button;
    });

    const rowsOfClasses = data.classes.map((name, label) => {
      const button = make("button", { type: "button", "aria-pressed": "false" });
      const bar = make("span", { class: "stack" });
      const parts = data.states.map(([, , tone]) => make("span", { class: `tone-${tone}` }));
      bar.append(...parts);
      const text = make("span", { class: "small" });
      button.append(make("span", { class: "name" }, name), bar, text);
      button.addEventListener("click", () => {
        now.label = now.label === label + 1 ? 0 : label + 1;
        labels.value = now.label;
        paint(true);
      });
      return { button, parts, text };
    });
    const present = new Set(data.labels);
    if (present.size > 1) byClass.append(...rowsOfClasses.filter((row, label) => present.has(label)).map((row) => row.button));

    function visible() {
      const order = data.rows.map((row, point) => point).filter((point) =>
        (now.label === 0 || data.labels[point] === now.label - 1) && (now.state < 0 || state(point) === now.state));
      const key = Object.values(keys())[now.sort - 1];
      if (key) order.sort((one, two) => (key[one] ?? Infinity) - (key[two] ?? Infinity) || one - two);
      return order;
    }

    let order = [];
    function paint(again) {
      const counts = data.states.map(() => 0);
      const perClass = data.classes.map(() => data.states.map(() => 0));
      tiles.forEach((tile, point) => {
        const own = state(point);
        const [name, , tone] = data.states[own];
        counts[own] += 1;
        perClass[data.labels[point]][own] += 1;
        tile.className = `tile tone-${tone}`;
        tile.setAttribute("aria-label", `test point ${data.rows[point]}, class ${data.classes[data.labels[point]]}, ${name}`);
        tile.title = `${data.rows[point]}: ${data.classes[data.labels[point]]}, ${name}`;
        if (point === now.point) tile.setAttribute("aria-selected", "true");
      });
      toggles.forEach((button, k) => {
        button.textContent = `${data.states[k][0]} ${counts[k]}`;
        button.setAttribute("aria-pressed", String(now.state === k));
      });
      rowsOfClasses.forEach(({ button, parts, text }, label) => {
        const own = perClass[label], all = own.reduce((sum, one) => sum + one, 0);
        parts.forEach((part, k) => { part.style.width = all ? `${(100 * own[k]) / all}%` : "0"; });
        text.textContent = own.map((one, k) => (one ? `${one} ${data.states[k][0]}` : "")).filter(Boolean).join(", ");
        button.setAttribute("aria-pressed", String(now.label === label + 1));
      });
      if (again || now.state >= 0) {
        order = visible();
        grid.replaceChildren(...order.map((point) => tiles[point]));
        if (!order.length) grid.append(make("p", { class: "small" }, "No point is like this."));
      }
      tiles.forEach((tile) => { tile.tabIndex = -1; });
      const first = order.includes(now.point) ? now.point : order[0];
      if (first !== undefined) tiles[first].tabIndex = 0;
      said.textContent = view().said[now.k];
      shown.textContent = data.radii[now.k] + (now.k === data.at ? ` (${data.threat})` : "");
      slider.setAttribute("aria-valuetext", shown.textContent);
      tell();
    }

    function picture(sheet) {
      images[sheet] ??= new Promise((resolve, reject) => {
        const image = new Image();
        image.onload = () => resolve(image);
        image.onerror = reject;
        image.src = data.sheets[sheet].source;
      });
      return images[sheet];
    }

    async function pixels(sheet, tile) {
      const { columns, width, height } = data.sheets[sheet];
      const canvas = make("canvas", { width, height });
      const pen = canvas.getContext("2d", { willReadFrequently: true });
      pen.drawImage(await picture(sheet), (tile % columns) * width, Math.floor(tile / columns) * height, width, height, 0, 0, width, height);
      return pen.getImageData(0, 0, width, height);
    }

    async function draw(canvas, shownAs, point) {
      const tile = shownAs.tiles[point], sheet = data.sheets[shownAs.sheet];
      const own = await pixels(shownAs.sheet, tile);
      if (shownAs.base) {
        const base = await pixels(shownAs.base, shownAs.on[point]);
        const unit = (255 * sheet.scales[tile]) / REACH;
        for (let k = 0; k < own.data.length; k += 1) {
          own.data[k] = k % 4 === 3 ? 255 : base.data[k] + (own.data[k] - MIDDLE) * unit;
        }
      }
      canvas.getContext("2d").putImageData(own, 0, 0);
      canvas.dataset.drawn = String(point);
    }

    function pictures(point) {
      const strip = make("div", { class: "strip" });
      for (const own of [...data.pictures.slice(0, 1), ...view().pictures, ...data.pictures.slice(1)]) {
        if (own.tiles[point] < 0) continue;
        const { width, height } = data.sheets[own.sheet];
        const canvas = make("canvas", { width, height, role: "img", "aria-label": own.caption });
        const figure = make("figure");
        figure.append(canvas, make("figcaption", {}, own.caption));
        strip.append(figure);
        draw(canvas, own, point).catch((error) => {
          figure.remove();
          document.documentElement.dataset.errors = String(Number(document.documentElement.dataset.errors || 0) + 1);
          console.error(error);
        });
      }
      return strip;
    }

    function featuresOf(point) {
      const before = data.features.rows[point], after = view().moved && view().moved[point];
      const table = make("table"), head = make("tr"), body = make("tbody");
      head.append(...["feature", "value", ...(after ? ["after the attack", "change"] : [])].map((word) => make("th", { scope: "col" }, word)));
      data.features.names.forEach((name, k) => {
        const row = make("tr"), change = after ? after[k] - before[k] : 0;
        row.append(make("th", { scope: "row" }, name), make("td", { "data-label": "value" }, String(before[k])));
        if (after) {
          row.append(make("td", { "data-label": "after the attack" }, String(after[k])));
          row.append(make("td", { "data-label": "change" }, change ? (change > 0 ? "+" : "") + Number(change.toPrecision(3)) : "0"));
          if (change) row.className = "moved";
        }
        body.append(row);
      });
      const top = make("thead");
      top.append(head);
      table.append(top, body);
      const scroll = make("div", { class: "scroll" });
      scroll.append(table);
      return scroll;
    }

    function tell() {
      const point = now.point;
      detail.dataset.point = String(point);
      if (point < 0) {
        detail.replaceChildren(make("p", { class: "small" }, "Choose a point: click it, or use the arrow keys."));
        return;
      }
      const [name, meaning, tone] = data.states[state(point)];
      const heading = make("h4", {}, `Test point ${data.rows[point]}, class ${data.classes[data.labels[point]]}`);
      const word = make("p", { class: "state" });
      word.append(make("span", { class: `dot tone-${tone}` }), make("strong", {}, name), document.createTextNode(`: ${meaning}`));
      const list = make("dl");
      for (const fact of [...view().facts, ...data.facts]) {
        let value = fact.values[point];
        if (value === null || value === undefined) continue;
        if (typeof value === "number" && fact.names.length) value = fact.names[value];
        const line = make("div");
        line.append(make("dt", {}, fact.title), make("dd", {}, String(value)));
        list.append(line);
      }
      const steps = make("p", { class: "steps" });
      for (const [text, by] of [["‹ previous", -1], ["next ›", 1]]) {
        const button = make("button", { type: "button" }, text);
        button.addEventListener("click", () => step(by, false));
        steps.append(button);
      }
      detail.replaceChildren(heading, word, pictures(point), list, ...(data.features ? [featuresOf(point)] : []), steps);
    }

    function choose(point) {
      if (now.point >= 0) tiles[now.point].setAttribute("aria-selected", "false");
      for (const tile of tiles) tile.tabIndex = -1;
      now.point = point;
      tiles[point].setAttribute("aria-selected", "true");
      tiles[point].tabIndex = 0;
      tell();
    }

    function step(by, focus) {
      if (!order.length) return;
      const place = order.indexOf(now.point);
      const next = place < 0 ? order[0] : order[Math.min(order.length - 1, Math.max(0, place + by))];
      choose(next);
      tiles[next].scrollIntoView({ block: "nearest" });
      if (focus) tiles[next].focus();
    }

    grid.addEventListener("keydown", (event) => {
      const top = order.length ? tiles[order[0]].offsetTop : 0;
      const wide = order.filter((point) => tiles[point].offsetTop === top).length || 1;
      const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -wide, ArrowDown: wide, Home: -count, End: count }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      step(by, true);
    });

    tools.hidden = false;
    views.value = "0";
    paint(true);
    box.dataset.ready = String(count);
  }

  document.querySelectorAll(".explorer").forEach(explore);
})();
