// SPDX-License-Identifier: Apache-2.0
// cli/parts/page/charts.js: what pages of the tool draw with: charts by Chart.js, tables, elements.
//
// table: {title, note, columns: [name], rows: [[text or number]]}
// chart: {id, title, note, wide, kind: area|line|bar, x: {label, unit, values, log}, y: {label, unit, max, log, stacked},
//         series: [{name, values, points, line, faint}]}
// Every text becomes text: nothing of the data is read as HTML.
"use strict";
const charts = (() => {
  const drawn = [];  // functions that draw anew, for another colour scheme
  const most_rows = 100;

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const faint = (hex) => hex + "38";
  const number = (value) => typeof value !== "number" ? String(value)
    : value.toLocaleString("en", Number.isInteger(value) ? {} : {maximumSignificantDigits: 6});
  const with_unit = (value, axis) => value === null ? "none" : number(value) + (axis.unit ? " " + axis.unit : "");
  const title_of = (axis) => axis.label + (axis.unit ? ", " + axis.unit : "");
  const short = (value) => {
    if (typeof value !== "number") return value;
    const big = Math.abs(value) >= 10000;
    return value.toLocaleString("en", big ? {notation: "compact", maximumFractionDigits: 1} : {maximumSignificantDigits: 4});
  };

  function table_of(caption, columns, rows) {
    const head = make("tr", {}, ...columns.map((name) => make("th", {scope: "col"}, name)));
    const body = rows.map((row) => make("tr", {}, ...row.map((cell, i) =>
      make(i === 0 ? "th" : "td", i === 0 ? {scope: "row"} : {}, cell === null ? "" : number(cell)))));
    const table = make("table", {}, make("caption", {}, caption), make("thead", {}, head), make("tbody", {}, ...body));
    return make("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": caption}, table);
  }

  // The same figures as the picture's, built when they are asked for.
  function details_of(chart, rows_of) {
    const details = make("details", {}, make("summary", {}, "Table"));
    details.addEventListener("toggle", () => {
      if (!details.open || details.children.length > 1) return;
      const [columns, rows] = rows_of();
      const every = Math.ceil(rows.length / most_rows);
      const some = rows.filter((_, i) => i % every === every - 1 || i === rows.length - 1);
      details.append(table_of(chart.title + (every > 1 ? `: every ${every}th of ${rows.length} rows` : ""), columns, some));
    });
    return details;
  }

  const is_empty = (chart) => chart.kind === "heat" ? chart.x.values.length === 0
    : chart.series.every((s) => s.values.every((value) => value === null || value === 0 && chart.kind !== "area"));

  // What a picture shows, in words.
  function words_of(chart) {
    const x = chart.x.values;
    const span = x.length ? ` from ${short(x[0])} to ${short(x[x.length - 1])}${chart.x.unit ? " " + chart.x.unit : ""}` : "";
    const parts = (chart.series || []).map((s) => {
      const known = s.values.filter((value) => value !== null);
      if (!known.length) return `${s.name}: none`;
      const low = known.reduce((a, b) => Math.min(a, b)), high = known.reduce((a, b) => Math.max(a, b));
      return `${s.name}: ${with_unit(low, chart.y)} to ${with_unit(high, chart.y)}, at the end ${with_unit(known[known.length - 1], chart.y)}`;
    });
    return `${chart.title}: ${chart.y.label} by ${chart.x.label}${span}. ${parts.join("; ")}`;
  }

  function axis_of(axis, more) {
    return {
      title: {display: true, text: title_of(axis), color: colour("quiet")},
      ticks: {color: colour("quiet"), maxRotation: axis.log ? 0 : 50, autoSkipPadding: 14, ...more.ticks},
      grid: {color: colour("grid"), borderColor: colour("line"), tickColor: colour("line")},
      ...Object.fromEntries(Object.entries(more).filter(([name]) => name !== "ticks")),
    };
  }

  function datasets_of(chart) {
    return chart.series.map((s, i) => {
      const tone = s.faint || chart.kind === "area" && i === chart.series.length - 1 && i > 1 ? colour("rest") : colour("tone-" + i % 5);
      const values = chart.kind === "bar" ? s.values : s.values.map((y, j) => ({x: chart.x.values[j], y}));
      return {
        label: s.name, data: values, borderColor: tone, backgroundColor: chart.kind === "bar" ? tone : faint(tone),
        fill: chart.kind === "area" ? (i === 0 ? "origin" : "-1") : false, borderWidth: chart.kind === "bar" ? 0 : s.faint ? 1 : 2,
        pointRadius: s.points ? 4 : 0, pointHoverRadius: 4, showLine: !(s.points && !s.line), pointBackgroundColor: tone,
        borderDash: chart.kind === "line" && i % 2 === 1 && !s.faint ? [6, 4] : [], spanGaps: true, tension: 0,
        maxBarThickness: 56, borderRadius: chart.y.stacked ? 0 : 3,
      };
    });
  }

  function settings_of(chart) {
    const numbers = {ticks: {callback: (value) => short(value)}};
    const log_ticks = {ticks: {callback: (value) => /^[125]/.test(String(value).replace(/^0\.0*/, "")) ? short(value) : ""}};
    const x = chart.kind === "bar" ? {grid: {display: false}, stacked: Boolean(chart.y.stacked)}
      : {type: chart.x.log ? "logarithmic" : "linear", min: chart.x.log ? chart.x.values[0] : undefined,
         max: chart.x.values[chart.x.values.length - 1], ...(chart.x.log ? log_ticks : numbers)};
    const y = {type: chart.y.log ? "logarithmic" : "linear", stacked: chart.kind === "area" || Boolean(chart.y.stacked), max: chart.y.max,
               ...(chart.y.log ? log_ticks : {beginAtZero: true, ...numbers})};
    return {
      type: chart.kind === "bar" ? "bar" : "line",
      data: {labels: chart.kind === "bar" ? chart.x.values : undefined, datasets: datasets_of(chart)},
      options: {
        animation: false, responsive: true, maintainAspectRatio: false, normalized: true,
        interaction: {mode: "nearest", axis: "x", intersect: false},
        scales: {x: axis_of(chart.x, x), y: axis_of(chart.y, y)},
        plugins: {
          legend: {display: chart.series.length > 1, position: "bottom",
                   labels: {color: colour("text"), boxWidth: 22, boxHeight: chart.kind === "line" ? 1 : 10, padding: 12}},
          tooltip: {callbacks: {
            title: (items) => items.length ? `${chart.x.label} ${with_unit(chart.kind === "bar" ? items[0].label : items[0].parsed.x, chart.x)}` : "",
            label: (item) => `${item.dataset.label}: ${with_unit(item.parsed.y, chart.y)}`,
          }},
        },
      },
    };
  }

  // Arrow keys lead through the points; what they reach is said aloud.
  function keys_of(canvas, count, show, live) {
    let at = -1;
    canvas.addEventListener("keydown", (event) => {
      const step = {ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity}[event.key];
      if (step === undefined || count() === 0) return;
      event.preventDefault();
      at = Math.min(Math.max(at + step, 0), count() - 1);
      live.textContent = show(at);
    });
    canvas.addEventListener("blur", () => { at = -1; show(-1); });
  }

  function draw_chart(chart, picture, live) {
    let drawing;
    const canvas = make("canvas", {role: "img", tabindex: "0", "aria-label": words_of(chart)});
    picture.append(canvas);
    const draw = () => { drawing?.destroy(); drawing = new Chart(canvas, settings_of(chart)); };
    keys_of(canvas, () => chart.x.values.length, (at) => {
      const active = at < 0 ? [] : chart.series.map((_, i) => ({datasetIndex: i, index: at})).filter((e) => chart.series[e.datasetIndex].values[at] !== null);
      drawing.setActiveElements(active);
      const place = active.length ? drawing.getDatasetMeta(active[0].datasetIndex).data[at] : {x: 0, y: 0};
      drawing.tooltip.setActiveElements(active, {x: place.x, y: place.y});
      drawing.update("none");
      if (at < 0) return "";
      return `${chart.x.label} ${with_unit(chart.x.values[at], chart.x)}: ` + chart.series.map((s) => `${s.name} ${with_unit(s.values[at], chart.y)}`).join(", ");
    }, live);
    drawn.push(draw);
    draw();
    const update = (newer) => {
      Object.assign(chart, newer);
      drawing.data.datasets = datasets_of(chart);
      drawing.options = settings_of(chart).options;
      drawing.update("none");
      canvas.setAttribute("aria-label", words_of(chart));
    };
    return {drop: () => drawing.destroy(), update};
  }

  function choice_of(legend, name, labels, choose) {
    const radios = labels.map((label, i) => {
      const radio = make("input", {type: "radio", name: "choice-" + name, ...(i === 0 ? {checked: ""} : {})});
      radio.addEventListener("change", () => choose(i));
      return make("label", {}, radio, label);
    });
    return make("fieldset", {class: "choice"}, make("legend", {}, legend), ...radios);
  }

  // Draws anew where the colour scheme changes; says that the page is there.
  function finish() {
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn.forEach((draw) => draw()));
    document.documentElement.dataset.ready = "yes";
  }

  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  return {drawn, make, colour, number, short, with_unit, title_of, table_of, details_of, is_empty, keys_of, draw_chart, choice_of, finish};
})();
