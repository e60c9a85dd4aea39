// SPDX-License-Identifier: Apache-2.0
// cli/watch/page/watch.js: asks for the figures of an engine, and changes what is on the page to them, in place.
//
// The page's own data: {facts: [[name, text]], interval_ms}; what /data answers: json_of in cli/watch/watched_json.cpp.
// Every text becomes text: nothing of an engine is read as HTML.
"use strict";
(() => {
  const {drawn, make, colour, number, short, table_of, details_of, is_empty, keys_of, draw_chart} = charts;
  const given = JSON.parse(document.getElementById("data").textContent);
  const report = document.getElementById("report");
  const tiles = document.getElementById("tiles");
  const state = document.getElementById("state");
  const notes = document.getElementById("notes");
  const pause = document.getElementById("pause");

  // Controls, and what would turn the text behind it around.
  const clean = (text) => String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
  const named = (text) => text === "" ? "(none)" : clean(text);
  const put = (element, text) => { if (element.textContent !== text) element.textContent = text; };
  const percent = (rate) => rate === null ? "none asked" : (100 * rate).toFixed(1) + " %";
  const span = (s) => s < 120 ? Math.max(0, Math.floor(s)) + " s" : s < 7200 ? (s / 60).toFixed(1) + " min" : (s / 3600).toFixed(1) + " h";
  const tokens = (names, block) => block ? number(names * block) + " tokens" : "tokens not told";
  const tone = (i) => i < 5 ? "tone-" + i : "rest";

  // ---- Parts that stay and change

  const tile_of = (label) => {
    const value = make("dd", {class: "value"}), note = make("dd", {class: "note"});
    tiles.append(make("div", {}, make("dt", {}, label), value, note));
    return (text, more) => { put(value, text); put(note, more); };
  };

  // Rows change in place, so that what is focused or selected stays.
  function table_card(title, full) {
    const card = make("section", {class: full ? "table-card full" : "table-card", hidden: ""});
    const note = make("p", {});
    let columns = "";
    return {
      card,
      show(names, rows, more) {
        card.hidden = rows.length === 0;
        if (columns !== names.join("\n")) {
          columns = names.join("\n");
          card.replaceChildren(table_of(title, names, []), note);
        }
        put(note, more || "");
        const body = card.querySelector("tbody");
        while (body.rows.length > rows.length) body.deleteRow(-1);
        rows.forEach((row, i) => {
          const line = body.rows[i] || body.insertRow();
          row.forEach((cell, j) => {
            if (!line.cells[j]) line.append(make(j === 0 ? "th" : "td", j === 0 ? {scope: "row"} : {}));
            put(line.cells[j], cell === null ? "" : number(cell));
          });
        });
      },
    };
  }

  function figure_of(id, title, note, wide) {
    const picture = make("div", {class: "picture"});
    const live = make("p", {class: "unseen", "aria-live": "polite"});
    const caption = make("figcaption", {}, make("h3", {}, title), make("p", {}, note));
    return {figure: make("figure", {class: wide || "", id: "figure-" + id}, caption, picture, live), picture, live, caption};
  }

  // A chart is drawn where it first has something to show. Its table is made when it is opened.
  function live_chart(id, title, note, y) {
    const {figure, picture, live} = figure_of(id, title, note);
    const empty = make("p", {class: "empty"}, "nothing to show yet");
    let chart = null, drawing = null;
    picture.append(empty);
    const rows_of = () => [["seconds", ...chart.series.map((s) => s.name + (y.unit ? ", " + y.unit : ""))],
                           chart.x.values.map((x, i) => [x, ...chart.series.map((s) => s.values[i] ?? null)])];
    return {
      figure,
      show(seconds, series) {
        const newer = {id, title, kind: "line", x: {label: "time", unit: "s", values: seconds}, y, series};
        if (seconds.length < 2 || is_empty(newer)) return;
        if (drawing) return drawing.update(newer);
        chart = newer;
        empty.remove();
        drawing = draw_chart(chart, picture, live);
        figure.append(details_of(chart, rows_of));
      },
    };
  }

  // ---- Prefixes: names from left to right, an ending a row

  function tree_figure() {
    const {figure, picture, live} = figure_of("prefixes", "Prefixes", "From left to right what prompts begin with, a row for each ending; a bar in the colour of each medium.", "wide");
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    for (const [name, value] of Object.entries({class: "tree", role: "img", tabindex: "0", focusable: "true"})) svg.setAttribute(name, value);
    const last = make("span", {}), more = make("span", {}), legend = make("ul", {class: "legend"});
    picture.append(svg);
    picture.after(make("div", {class: "ends"}, make("span", {}, "first token"), more, last), legend);
    figure.hidden = true;
    let shown = null, at = -1;

    function words(i) {
      const [, , start, length, media, names, endings, others] = shown.prefixes.segments[i];
      const block = shown.prefixes.block_size || 1, what = shown.prefixes.block_size ? "tokens" : "names";
      const where = shown.media.filter((_, m) => media >> m & 1).map((medium) => named(medium.name)).join(", ");
      return `${what} ${number(start * block + 1)} to ${number((start + length) * block)}, in ${where || "no medium"}; ` +
        `${number(names)} names from here on, ${number(endings)} endings` + (others ? `; ${number(others)} more branches are not shown` : "");
    }

    function draw() {
      if (!shown) return;
      const segments = shown.prefixes.segments;
      const rows = segments.reduce((most, s) => Math.max(most, s[0] + s[1]), 1);
      const end = segments.reduce((most, s) => Math.max(most, s[2] + s[3]), 1);
      picture.style.height = Math.min(360, 24 + rows * 18) + "px";
      const fragments = [];
      segments.forEach(([row, height, start, length, media], i) => {
        const in_media = shown.media.map((_, m) => m).filter((m) => media >> m & 1);
        const parts = in_media.length ? in_media : [99];
        parts.forEach((medium, part) => {
          const box = document.createElementNS("http://www.w3.org/2000/svg", "rect");
          const each = height / parts.length;
          const place = {x: 100 * start / end, width: 100 * length / end, y: 100 * (row + part * each) / rows, height: 100 * each / rows};
          for (const [name, value] of Object.entries(place)) box.setAttribute(name, value.toFixed(3) + "%");
          box.setAttribute("fill", colour(tone(medium)));
          box.setAttribute("stroke", colour("card"));
          if (i === at) box.setAttribute("class", "marked");
          const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
          title.textContent = words(i);
          box.append(title);
          fragments.push(box);
        });
      });
      svg.replaceChildren(...fragments);
      svg.setAttribute("aria-label", `Prefixes: ${number(shown.prefixes.trees)} trees with ${number(shown.prefixes.endings)} endings, ${segments.length} parts shown; the longest has ${number(shown.prefixes.longest)} names. Arrow keys lead through the parts.`);
      const others = segments.reduce((sum, s) => sum + s[7], 0);
      put(more, others ? `${number(others)} more branches are not shown` : "");
      put(last, (shown.prefixes.block_size ? number(end * shown.prefixes.block_size) + " tokens" : number(end) + " names"));
      legend.replaceChildren(...shown.media.map((medium, m) => {
        const patch = make("i", {"aria-hidden": "true"});
        patch.style.background = colour(tone(m));
        return make("li", {}, patch, named(medium.name));
      }));
    }

    keys_of(svg, () => shown ? shown.prefixes.segments.length : 0, (i) => {
      at = i;
      draw();
      return i < 0 ? "" : words(i);
    }, live);
    drawn.push(draw);
    return {
      figure,
      show(data) {
        figure.hidden = data.prefixes.segments.length === 0;
        const text = JSON.stringify([data.prefixes, data.media.map((medium) => medium.name)]);
        if (text === figure.dataset.shown) return;
        figure.dataset.shown = text;
        shown = data;
        at = Math.min(at, data.prefixes.segments.length - 1);
        draw();
      },
    };
  }

  // ---- The page

  const show_names = tile_of("Names"), show_changes = tile_of("Stored a second"), show_prefixes = tile_of("Prefixes"),
        show_hits = tile_of("Hit rate"), show_age = tile_of("Last batch");
  const over_names = live_chart("names", "Names by medium", "A name that is in several media counts in each.", {label: "names"});
  const over_changes = live_chart("changes", "Stored and removed", "Copies of names, a second.", {label: "names a second"});
  const over_hits = live_chart("hits", "Hit rate", "What was found of what was looked for, by the engine's own counters.", {label: "found", unit: "%", max: 100});
  const tree = tree_figure();
  const media_table = table_card("Media"), groups_table = table_card("Groups of layers"), largest_table = table_card("Largest prefixes", true),
        caches_table = table_card("Hits", true), readings_table = table_card("The engine says");

  function build() {
    for (const [name, text] of given.facts) document.getElementById("facts").append(make("dt", {}, name), make("dd", {}, clean(text)));
    put(document.getElementById("facts-title"), "What is watched");
    const grid = make("div", {class: "charts"}, tree.figure, over_names.figure, over_changes.figure, over_hits.figure);
    const tables = make("div", {class: "tables"}, ...[media_table, groups_table, largest_table, caches_table, readings_table].map((table) => table.card));
    report.append(make("h2", {}, "Now and over time"), grid, make("h2", {}, "Figures"), tables);
    charts.finish();
  }

  function show_history(data) {
    const samples = data.history;
    let end = samples.reduce((sum, sample) => sum + sample[0], 0), at = 0;
    const seconds = samples.map((sample) => Math.round(10 * ((at += sample[0]) - end)) / 10);
    const series = (name, values) => ({name: clean(name), values});
    over_names.show(seconds, data.media.map((medium, m) => series(named(medium.name), samples.map((sample) => sample[3][m] ?? 0))));
    const a_second = (i) => samples.map((sample) => sample[0] > 0 ? sample[i] / sample[0] : 0);
    over_changes.show(seconds, [series("stored", a_second(1)), series("removed", a_second(2))]);
    if (!data.metrics) return;
    const rates = data.metrics.caches.map((cache, c) => series(cache.name, samples.map((sample) => {
      const [hits, queries] = sample[4][c] || [0, 0];
      return queries > 0 ? 100 * hits / queries : null;
    })));
    // What stands alone is no line: points show it.
    const few = rates.filter((one) => one.values.filter((value) => value !== null).length < 12);
    for (const one of few) one.points = one.line = true;
    over_hits.show(seconds, rates.filter((_, c) => data.metrics.caches[c].is_used));
  }

  function show_tables(data) {
    const media = data.media.map((medium) => named(medium.name));
    const counts = (in_media) => in_media.map((count) => count || null);
    media_table.show(["medium", "names"], data.media.map((medium) => [named(medium.name), medium.names]));
    groups_table.show(["group", "rule", "tokens a name", "names", "tokens"],
      data.groups.map((group) => [group.group, group.window ? `${group.rule} of ${group.window}` : group.rule, group.block_size || null, group.names, group.tokens]));
    const {prefixes} = data;
    largest_table.show(["first name", "names", "tokens", "endings", "longest", "shared by all", ...media],
      prefixes.largest.map((one) => [one.root + (one.is_cut ? " *" : ""), one.names, one.tokens, one.endings, one.longest, one.shared, ...counts(one.media)]),
      prefixes.cut_trees ? `* what came before is not there: ${number(prefixes.cut_trees)} trees` : "");
    const metrics = data.metrics || {caches: [], readings: []};
    caches_table.show(["cache", "now", "watched", "in all", "found", "of", "unit", "metric"], metrics.caches.map((cache) =>
      [clean(cache.name), percent(cache.rate_now), percent(cache.rate), percent(cache.rate_in_all), cache.hits, cache.queries, cache.unit, cache.metric]));
    readings_table.show(["figure", "value", "metric"], metrics.readings.map((reading) =>
      [clean(reading.name), reading.is_share ? percent(reading.value) : reading.value, reading.metric]));
  }

  function show_tiles(data) {
    const {prefixes, stream, metrics} = data;
    const group = data.groups.find((one) => one.group === prefixes.group);
    show_names(short(data.names), group ? tokens(group.names, group.block_size) + (data.groups.length > 1 ? ` of group ${group.group}` : "") : "nothing told yet");
    show_changes(stream.stored_a_second.toFixed(1), `${stream.removed_a_second.toFixed(1)} removed`);
    show_prefixes(short(prefixes.trees), prefixes.names ? `${(prefixes.unshared / prefixes.names).toFixed(2)} times the names without sharing` : "none");
    const cache = metrics && metrics.caches[0];
    const is_watched = cache && cache.rate !== null;
    show_hits(cache ? percent(is_watched ? cache.rate : cache.rate_in_all) : "not known", cache
      ? `${clean(cache.name)}, ${is_watched ? "watched; now " + percent(cache.rate_now) : "since the engine began"}`
      : metrics ? "no known metric" : "ask with --metrics");
    put(state, (stream.link === "none" ? "Metrics alone" : "Event stream: " + stream.state.replace(/ for [^,]*/, "")) + (metrics && metrics.fault ? "; no metrics" : ""));
    state.dataset.link = stream.link === "none" ? metrics.fault ? "gone" : "current" : stream.link;
    notes.hidden = data.warnings.length === 0;
    if (notes.dataset.shown !== data.warnings.join("\n")) {
      notes.dataset.shown = data.warnings.join("\n");
      notes.replaceChildren(...data.warnings.map((text) => make("li", {}, clean(text))));
    }
  }

  // ---- Asking

  let newest = null, received = 0, timer = 0, is_paused = false;

  function show_ages() {
    if (!newest) return;
    const late = (performance.now() - received) / 1000, {stream, metrics} = newest;
    const age = stream.link === "none" ? metrics.age_s : stream.silent_s;
    show_age(age === null ? "never" : span(age + late) + " ago", stream.link === "none" ? "of the metrics" : stream.gone_s !== null
      ? `the engine is gone for ${span(stream.gone_s + late)}` : stream.silent_s === null ? stream.state : `number ${number(stream.next_batch - 1)}`);
    if (state.dataset.link === "lost") put(state, `folio watch does not answer; these figures are ${span(late)} old`);
  }

  async function ask() {
    clearTimeout(timer);
    if (!document.hidden && !is_paused) {
      try {
        const answer = await fetch("data", {cache: "no-store", signal: AbortSignal.timeout(5000)});
        if (!answer.ok) throw new Error(`status ${answer.status}`);
        const data = await answer.json();
        if (data.stream && !is_paused) {
          newest = data;
          received = performance.now();
          show_tiles(data);
          show_history(data);
          show_tables(data);
          tree.show(data);
        }
      } catch (reason) {
        state.dataset.link = "lost";
        if (!newest) put(state, "folio watch does not answer");
      }
      show_ages();
    }
    clearTimeout(timer);
    timer = setTimeout(ask, Math.max(250, given.interval_ms));
  }

  pause.addEventListener("click", () => {
    is_paused = !is_paused;
    pause.setAttribute("aria-pressed", String(is_paused));
    if (!is_paused) ask();
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) ask(); });
  build();
  setInterval(() => { if (!is_paused) show_ages(); }, 1000);
  ask();
})();
