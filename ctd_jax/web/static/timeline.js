"use strict";
// The timeline, drawn by Plotly over the figure that the server has drawn.
// Mouse, fingers and keys move and zoom it; the bars of what is seen are asked
// of the server, so that a corpus of any size is a few hundred bars.

(() => {
  const box = document.getElementById("plot");
  if (!box || !window.Plotly) return;
  const data = box.dataset;
  const numMonths = Number(data.months);
  const asks = data.asks === "true";
  const WAIT = 180; // milliseconds after which a movement is taken as ended
  const MIN_MONTHS = 6; // that are seen at least
  const MARGIN = 0.5; // of what is seen, asked for on either side
  let bars = [];
  let timer = 0;
  let request = null;
  const plot = document.createElement("div");

  const colour = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Returns first and last month that are seen, within the calendar.
  function clamp(first, last) {
    const size = Math.min(Math.max(last - first, MIN_MONTHS), numMonths);
    const start = Math.min(Math.max(first, -0.5), numMonths - 0.5 - size);
    return [start, start + size];
  }

  function seen() {
    return (plot.layout || layout()).xaxis.range.map(Number);
  }

  function makeTrace(name, value, axis, colourOf) {
    return {
      type: "bar",
      name,
      yaxis: axis,
      x: bars.map((bar) => (bar.first + bar.last) / 2),
      width: bars.map((bar) => (bar.last - bar.first + 1) * 0.9),
      y: bars.map(value),
      customdata: bars.map((bar) => bar.name === bar.common_era
        ? bar.name : `${bar.name} (${bar.common_era})`),
      hovertemplate: `%{customdata}<br>${name}: %{y:.3g}<extra></extra>`,
      marker: { color: bars.map(colourOf) },
    };
  }

  // A label is as wide as its letters; Han characters are twice as wide.
  const measure = (label) => 14 + 7 * [...label].reduce(
    (sum, letter) => sum + (letter > "\u2e80" ? 1.8 : 1), 0);

  function makeTicks() {
    const [first, last] = seen();
    const inside = bars.filter((bar) => bar.last >= first && bar.first <= last);
    const label = (bar) => bar.first === bar.last
      ? bar.name : bar.common_era.split(" – ")[0];
    const widest = Math.max(...inside.map((bar) => measure(label(bar))), 1);
    const room = Math.max(Math.floor((box.clientWidth - 60) / widest), 1);
    const step = Math.max(Math.ceil(inside.length / room), 1);
    const offset = Math.floor(Math.min(step, inside.length) / 2);
    const shown = inside.filter((_, index) => index % step === offset);
    return {
      tickangle: 0,
      tickvals: shown.map((bar) => (bar.first + bar.last) / 2),
      ticktext: shown.map(label),
    };
  }

  // Both axes begin at the line between them; one of them says so.
  function makeTicksBelow() {
    const most = Math.max(...bars.map((bar) => bar.records), 0);
    if (!most) return { tickvals: [] };
    const unit = 10 ** Math.floor(Math.log10(most));
    const size = [5, 2, 1, 0.5].find((factor) => factor * unit <= most / 1.5);
    const step = size * unit;
    return { tickvals: [step, 2 * step].filter((value) => value <= most) };
  }

  let range = clamp(Number(data.first) - 0.5, Number(data.last) + 0.5);

  function layout() {
    const axis = {
      fixedrange: true, zeroline: false, gridcolor: colour("--line"),
      nticks: 3, rangemode: "tozero",
    };
    return {
      height: 240,
      margin: { l: 46, r: 6, t: 6, b: 34 },
      showlegend: false,
      dragmode: "pan",
      hovermode: "x",
      barmode: "overlay",
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("--quiet"), size: 12, family: "inherit" },
      xaxis: { range, showgrid: false, zeroline: false, anchor: "y2" },
      ...(asks ? {
        yaxis: { ...axis, domain: [0.42, 1] },
        yaxis2: { ...axis, domain: [0, 0.38], autorange: "reversed" },
      } : { yaxis2: { ...axis, domain: [0, 1] } }),
    };
  }

  function draw() {
    const above = colour("--above");
    const below = colour("--below");
    const next = layout();
    next.xaxis.range = range;
    const traces = [
      makeTrace(data.records, (bar) => bar.records, "y2",
        (bar) => (bar.is_asked ? above : below)),
    ];
    if (asks) {
      traces.push(
        makeTrace(data.matches, (bar) => bar.matches, "y", () => above));
    }
    if (!plot.layout) plot.layout = next;
    Object.assign(next.xaxis, makeTicks());
    if (asks) Object.assign(next.yaxis2, makeTicksBelow());
    return window.Plotly.react(plot, traces, next, {
      displayModeBar: false, scrollZoom: true, responsive: true,
      doubleClick: false,
    });
  }

  // Asks for the bars of what is seen, and of some more on either side.
  async function load() {
    if (request) request.abort();
    request = new AbortController();
    const [first, last] = range;
    const margin = (last - first) * MARGIN;
    const address = new URLSearchParams(data.query);
    address.set("first", Math.max(Math.floor(first - margin), 0));
    address.set("last", Math.min(Math.ceil(last + margin), numMonths - 1));
    try {
      const response = await fetch(`/api/timeline?${address}`,
        { signal: request.signal });
      if (!response.ok) return false;
      bars = (await response.json()).bars;
    } catch (error) {
      return false; // another movement came before, or the server is away
    }
    await draw();
    return true;
  }

  function move(first, last) {
    range = clamp(first, last);
    window.Plotly.relayout(plot, { "xaxis.range": range });
  }

  function zoom(factor, centre) {
    const [first, last] = range;
    const middle = centre === undefined ? (first + last) / 2 : centre;
    move(middle - (middle - first) * factor, middle + (last - middle) * factor);
  }

  function narrow(first, last) {
    const address = new URLSearchParams(data.query);
    address.delete("page");
    address.set("from", `@${Math.max(Math.ceil(first), 0)}`);
    address.set("to", `@${Math.min(Math.floor(last), numMonths - 1)}`);
    window.location.assign(`/?${address}`);
  }

  const keys = {
    ArrowLeft: () => pan(-0.25),
    ArrowRight: () => pan(0.25),
    "+": () => zoom(0.6),
    "=": () => zoom(0.6),
    "-": () => zoom(1 / 0.6),
    Home: () => move(-0.5, numMonths - 0.5),
    Enter: () => narrow(...range),
  };

  function pan(share) {
    const step = (range[1] - range[0]) * share;
    move(range[0] + step, range[1] + step);
  }

  // Two fingers; one moves, which Plotly does.
  const fingers = new Map();
  let spread = 0;
  function follow(event) {
    if (!fingers.has(event.pointerId)) return;
    fingers.set(event.pointerId, event.clientX);
    if (fingers.size !== 2) return;
    const [one, other] = fingers.values();
    const width = Math.abs(one - other);
    if (spread && width) {
      const area = plot.getBoundingClientRect();
      const share = ((one + other) / 2 - area.left) / area.width;
      zoom(spread / width, range[0] + share * (range[1] - range[0]));
    }
    spread = width;
    event.stopPropagation();
  }
  function lift(event) {
    fingers.delete(event.pointerId);
    spread = 0;
  }

  async function start() {
    plot.className = "drawing";
    range = clamp(...range);
    box.append(plot);
    if (!(await load())) {
      plot.remove();
      return;
    }
    box.querySelector("svg.chart").setAttribute("hidden", "");
    box.classList.add("live");
    box.tabIndex = 0;
    box.setAttribute("role", "application");
    box.setAttribute("aria-label", data.help);
    plot.on("plotly_relayout", (change) => {
      const first = change["xaxis.range[0]"] ?? change["xaxis.range"]?.[0];
      const last = change["xaxis.range[1]"] ?? change["xaxis.range"]?.[1];
      if (first === undefined) return;
      range = clamp(Number(first), Number(last));
      clearTimeout(timer);
      timer = setTimeout(load, WAIT);
    });
    plot.on("plotly_click", (event) => {
      const bar = bars[event.points[0].pointNumber];
      if (bar) narrow(bar.first, bar.last);
    });
    box.addEventListener("keydown", (event) => {
      const act = !event.ctrlKey && !event.metaKey && keys[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    });
    plot.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "touch") {
        fingers.set(event.pointerId, event.clientX);
      }
    }, true);
    plot.addEventListener("pointermove", follow, true);
    for (const name of ["pointerup", "pointercancel"]) {
      window.addEventListener(name, lift, true);
    }
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  }

  start();
})();
