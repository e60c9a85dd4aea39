// SPDX-License-Identifier: Apache-2.0
// cli/parts/page/report.js: draws the data of a report.
//
// data: {title, facts: [[name, text]], tiles: [{label, value, note}], tables: [table], charts: [chart],
//        runs: [{name, charts: [chart]}], left_out}; several runs are shown one at a time. left_out: what their pictures do not show.
// table: {title, note, columns: [name], rows: [[text or number]]}
// chart: {id, title, note, wide, kind: area|line|bar|heat, x: {label, unit, values, log}, y: {label, unit, max, log, stacked},
//         series: [{name, values, points, line, faint}]}; a heat map has layers: [{name, columns: [[number]]}] and y.step instead of series.
// Every text becomes text: nothing of the data is read as HTML.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
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
    return () => drawing.destroy();
  }

  const mixed = (cold, hot, share) => {
    const part = (hex, i) => parseInt(hex.slice(1 + 2 * i, 3 + 2 * i), 16);
    return `rgb(${[0, 1, 2].map((i) => Math.round(part(cold, i) + share * (part(hot, i) - part(cold, i)))).join(",")})`;
  };

  // Cells of pages by time. `state.layer` is the one that is shown.
  function draw_heat(chart, picture, live) {
    const state = {layer: chart.layers[0]};
    const columns = chart.x.values.length, rows = chart.layers[0].columns[0].length;
    const canvas = make("canvas", {role: "img", tabindex: "0", "aria-label": `${chart.title}: ${rows} ranges of ${chart.y.label} by ${columns} spans of ${chart.x.label}s; the table sums each range`});
    const tip = make("div", {class: "tip", hidden: ""});
    picture.append(canvas, tip);
    const box = {left: 64, bottom: 40, top: 6, right: 8};
    const size = () => ({width: picture.clientWidth, height: picture.clientHeight});
    const first_of = (column) => column === 0 ? 1 : chart.x.values[column - 1] + 1;
    const most_of = (layer) => layer.columns.reduce((most, c) => c.reduce((a, b) => Math.max(a, b), most), 0);
    const say = (column, row) => `${chart.x.label}s ${number(first_of(column))} to ${number(chart.x.values[column])}, ${chart.y.label}s ${number(row * chart.y.step)} to ${number((row + 1) * chart.y.step - 1)}: ${number(state.layer.columns[column][row])} ${state.layer.name}`;

    function draw(marked) {
      const {width, height} = size(), scale = window.devicePixelRatio || 1;
      canvas.width = width * scale;
      canvas.height = height * scale;
      canvas.style.width = width + "px";
      canvas.style.height = height + "px";
      const pen = canvas.getContext("2d");
      pen.scale(scale, scale);
      const cell = {w: (width - box.left - box.right) / columns, h: (height - box.top - box.bottom) / rows};
      const cold = colour("cold"), hot = colour("hot"), most = most_of(state.layer);
      for (let column = 0; column < columns; ++column) {
        for (let row = 0; row < rows; ++row) {
          const share = most ? Math.sqrt(state.layer.columns[column][row] / most) : 0;
          pen.fillStyle = mixed(cold, hot, share);
          pen.fillRect(box.left + column * cell.w, box.top + row * cell.h, cell.w + 0.5, cell.h + 0.5);
        }
      }
      pen.fillStyle = colour("quiet");
      pen.font = "12px " + getComputedStyle(document.body).fontFamily;
      pen.textAlign = "right";
      pen.textBaseline = "middle";
      const each_row = Math.max(1, Math.ceil(rows / 6));
      for (let row = 0; row < rows; row += each_row) pen.fillText(short(row * chart.y.step), box.left - 6, box.top + (row + 0.5) * cell.h);
      pen.textBaseline = "top";
      pen.textAlign = "left";
      const below = height - box.bottom + 6;
      pen.fillText(short(first_of(0)), box.left, below);
      pen.textAlign = "right";
      pen.fillText(short(chart.x.values[columns - 1]), width - box.right, below);
      pen.textAlign = "center";
      pen.fillText(title_of(chart.x), box.left + (width - box.left - box.right) / 2, below + 14);
      pen.save();
      pen.translate(10, box.top + (height - box.top - box.bottom) / 2);
      pen.rotate(-Math.PI / 2);
      pen.textBaseline = "middle";
      pen.fillText(title_of(chart.y), 0, 0);
      pen.restore();
      if (!marked) return;
      pen.strokeStyle = colour("tone-1");
      pen.lineWidth = 2;
      pen.strokeRect(box.left + marked.column * cell.w, box.top + marked.row * cell.h, cell.w, cell.h);
    }

    function show(column, row) {
      tip.hidden = column < 0;
      draw(column < 0 ? undefined : {column, row});
      if (column < 0) return "";
      const {width, height} = size();
      tip.textContent = say(column, row);
      tip.style.whiteSpace = width < 520 ? "normal" : "nowrap";
      const x = box.left + (column + 0.5) / columns * (width - box.left - box.right);
      tip.style.left = Math.max(0, Math.min(x + 10, width - tip.offsetWidth)) + "px";
      tip.style.top = Math.min(box.top + (row + 1) / rows * (height - box.top - box.bottom) + 8, height - tip.offsetHeight) + "px";
      return tip.textContent;
    }

    canvas.addEventListener("mousemove", (event) => {
      const {width, height} = size();
      const column = Math.floor((event.offsetX - box.left) / (width - box.left - box.right) * columns);
      const row = Math.floor((event.offsetY - box.top) / (height - box.top - box.bottom) * rows);
      const inside = column >= 0 && column < columns && row >= 0 && row < rows;
      show(inside ? column : -1, row);
    });
    canvas.addEventListener("mouseleave", () => show(-1, 0));
    const at = {column: 0, row: 0};
    canvas.addEventListener("keydown", (event) => {
      const [dx, dy] = {ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1]}[event.key] || [];
      if (dx === undefined) return;
      event.preventDefault();
      at.column = Math.min(Math.max(at.column + dx, 0), columns - 1);
      at.row = Math.min(Math.max(at.row + dy, 0), rows - 1);
      live.textContent = show(at.column, at.row);
    });
    canvas.addEventListener("blur", () => show(-1, 0));
    const watch = new ResizeObserver(() => draw());
    watch.observe(picture);
    drawn.push(draw);

    const choice = choice_of("Shown", chart.id, chart.layers.map((layer) => layer.name), (i) => { state.layer = chart.layers[i]; draw(); });
    const scale = make("div", {class: "scale"}, "0", make("i"), make("span", {}, "most"));
    picture.after(choice, scale);
    draw();
    return () => watch.disconnect();
  }

  function heat_rows(chart) {
    const sums = chart.layers[0].columns[0].map((_, row) => [
      `${number(row * chart.y.step)}–${number((row + 1) * chart.y.step - 1)}`,
      ...chart.layers.map((layer) => layer.columns.reduce((sum, column) => sum + column[row], 0))]);
    return [[chart.y.label, ...chart.layers.map((layer) => layer.name)], sums];
  }

  function choice_of(legend, name, labels, choose) {
    const radios = labels.map((label, i) => {
      const radio = make("input", {type: "radio", name: "choice-" + name, ...(i === 0 ? {checked: ""} : {})});
      radio.addEventListener("change", () => choose(i));
      return make("label", {}, radio, label);
    });
    return make("fieldset", {class: "choice"}, make("legend", {}, legend), ...radios);
  }

  // Adds the figure to `grid`; the result takes what it holds away.
  function add_figure(chart, grid) {
    const caption = make("figcaption", {}, make("h3", {}, chart.title), ...(chart.note ? [make("p", {}, chart.note)] : []));
    const picture = make("div", {class: "picture"});
    const live = make("p", {class: "unseen", "aria-live": "polite"});
    const figure = make("figure", {class: chart.kind === "heat" ? "wide" : chart.wide || "", id: "figure-" + chart.id}, caption, picture, live);
    grid.append(figure);
    if (is_empty(chart)) {
      picture.append(make("p", {class: "empty"}, "nothing to show: none in this replay"));
      return () => {};
    }
    const rows = () => chart.kind === "heat" ? heat_rows(chart)
      : [[title_of(chart.x), ...chart.series.map((s) => s.name + (chart.y.unit ? ", " + chart.y.unit : ""))],
         chart.x.values.map((x, i) => [x, ...chart.series.map((s) => s.values[i] ?? null)])];
    const drop = chart.kind === "heat" ? draw_heat(chart, picture, live) : draw_chart(chart, picture, live);
    figure.append(details_of(chart, rows));
    return drop;
  }

  function add_runs(runs, report) {
    report.append(make("h2", {}, runs.length > 1 ? "Each policy" : "The replay"));
    const grid = make("div", {class: "charts"});
    const own = drawn.length;
    let drops = [];
    const show = (i) => {
      drops.forEach((drop) => drop());
      drawn.length = own;
      grid.replaceChildren();
      drops = runs[i].charts.map((chart) => add_figure(chart, grid));
    };
    if (runs.length > 1) report.append(choice_of("Policy", "run", runs.map((run) => run.name), show));
    report.append(grid, ...(data.left_out ? [make("p", {class: "lead left-out"}, data.left_out)] : []));
    show(0);
  }

  function build() {
    const report = document.getElementById("report");
    for (const tile of data.tiles || []) {
      document.getElementById("tiles").append(make("div", {}, make("dt", {}, tile.label),
        make("dd", {class: "value"}, tile.value), make("dd", {class: "note"}, tile.note)));
    }
    for (const [name, text] of data.facts || []) document.getElementById("facts").append(make("dt", {}, name), make("dd", {}, text));
    if (data.tables || data.charts) report.append(make("h2", {}, data.heading || "Comparison"));
    if (data.lead) report.append(make("p", {class: "lead"}, data.lead));
    for (const table of data.tables || []) {
      report.append(make("section", {class: "table-card"}, table_of(table.title, table.columns, table.rows), ...(table.note ? [make("p", {}, table.note)] : [])));
    }
    if (data.charts) {
      const grid = make("div", {class: data.charts.length < 3 ? "charts few" : "charts"});
      report.append(grid);
      data.charts.forEach((chart) => add_figure(chart, grid));
    }
    if (data.runs) add_runs(data.runs, report);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn.forEach((draw) => draw()));
    document.documentElement.dataset.ready = "yes";
  }

  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  build();
})();
