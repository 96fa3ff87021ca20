// Draws every chart in the theme of the page, again when the theme changes.
// <html data-drawn data-charts data-errors> say how that went; the tests read them.
(() => {
  "use strict";
  const root = document.documentElement;
  const themes = JSON.parse(document.getElementById("themes").textContent);
  const plots = [...document.querySelectorAll(".plot")];
  const button = document.getElementById("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const failed = (error) => {
    root.dataset.errors = String(Number(root.dataset.errors) + 1);
    console.error(error);
  };
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const drawn = new Map();

  // A long title of the x axis takes several lines where the page is narrow.
  function wrapped(spec, letters) {
    for (const { encoding } of spec.layer) {
      if (encoding.x && typeof encoding.x.title === "string") {
        const lines = [""];
        for (const word of encoding.x.title.split(" ")) {
          if (lines.at(-1) && lines.at(-1).length + word.length >= letters) lines.push("");
          lines.push((lines.pop() + " " + word).trim());
        }
        encoding.x.title = lines;
      }
    }
    return spec;
  }

  async function draw(plot, theme) {
    const live = plot.querySelector(".live");
    const letters = Math.max(16, plot.clientWidth / 9);
    const spec = wrapped(JSON.parse(plot.querySelector("script").textContent), letters);
    const result = await window.vegaEmbed(live, spec, {
      ast: true, // interpret expressions: the page forbids eval
      actions: false,
      config: themes[theme],
      defaultStyle: false, // the page's own sheet has these styles
      renderer: "svg",
      tooltip: { disableDefaultStyle: true },
    });
    if (drawn.has(plot)) drawn.get(plot).finalize();
    drawn.set(plot, result);
    plot.dataset.drawn = theme;
  }

  let round = 0;
  async function drawAll() {
    const mine = ++round; // a newer theme ends this round
    const theme = dark() ? "dark" : "light";
    button.textContent = dark() ? "Light" : "Dark";
    delete root.dataset.drawn;
    for (const plot of plots) {
      if (mine !== round) return;
      try {
        await draw(plot, theme);
      } catch (error) {
        failed(error); // the still picture stays
      }
    }
    if (mine === round) root.dataset.drawn = theme;
  }

  // The box above a ledger hides the statements that do not contain what is typed, or that have another status than
  // the one typed. A card with a count writes its status into the box; a second click empties it.
  for (const filter of document.querySelectorAll(".filter")) {
    const entries = [...filter.nextElementSibling.children];
    const cards = [...document.querySelectorAll("[data-choice]")];
    filter.hidden = false;
    filter.addEventListener("input", () => {
      const typed = filter.value.trim().toLowerCase();
      const byStatus = entries.some((entry) => entry.dataset.status === typed);
      for (const entry of entries) {
        const text = entry.textContent.toLowerCase();
        const all = () => typed.split(/\s+/).every((word) => text.includes(word));
        entry.hidden = byStatus ? entry.dataset.status !== typed : !all();
      }
      for (const card of cards) card.setAttribute("aria-pressed", String(card.dataset.choice === typed));
    });
    for (const card of cards) {
      const choose = () => {
        filter.value = filter.value === card.dataset.choice ? "" : card.dataset.choice;
        filter.dispatchEvent(new Event("input"));
        if (filter.value) filter.scrollIntoView({ block: "start" });
      };
      Object.assign(card, { tabIndex: 0, role: "button" });
      card.addEventListener("click", choose);
      card.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); }
      });
    }
  }

  // A button beside each command that is to be copied.
  for (const box of document.querySelectorAll(".command")) {
    const copy = document.createElement("button");
    Object.assign(copy, { type: "button", className: "copy", textContent: "Copy" });
    copy.setAttribute("aria-label", "Copy the command");
    copy.addEventListener("click", async () => {
      const code = box.querySelector("code");
      try {
        await navigator.clipboard.writeText(code.textContent);
        copy.textContent = "Copied";
      } catch {
        window.getSelection().selectAllChildren(code); // the reader's own keys copy what is selected
        copy.textContent = "Selected";
      }
      setTimeout(() => { copy.textContent = "Copy"; }, 2000);
    });
    box.append(copy);
  }

  root.dataset.charts = String(plots.length);
  root.dataset.errors = "0";
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    drawAll();
  });
  system.addEventListener("change", drawAll);
  drawAll();
})();
