// SPDX-License-Identifier: Apache-2.0
/// cli/parts/page.cpp: the parts of a page put together.
#include "parts/page.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

// The files that are built into the tool: cli/page/ and Chart.js, empty where it is missing.
extern const std::string_view page_html, page_css, page_charts, page_script, page_licences,
    page_chart_js;

namespace folio::cli {
namespace {

using nlohmann::ordered_json;

std::string dump(const ordered_json& data) {
  return data.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace

Status can_make_pages(std::string_view option) {
  if (!page_chart_js.empty()) return {};
  return {
      Errc::unsupported,
      fmt::format("{}: this folio was built without Chart.js (Debian: libjs-chart.js)", option)};
}

std::string escape_html(std::string_view text) {
  const auto valid = ordered_json::parse(dump(ordered_json(text))).get<std::string>();
  std::string escaped;
  for (const char c : valid) {
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      case '\'': escaped += "&#39;"; break;
      case '\0': escaped += "\xef\xbf\xbd"; break;  // HTML has no null
      default: escaped += c;
    }
  }
  return escaped;
}

std::string script_json(const ordered_json& data) {
  // These three stand in strings only, where an escape means the same.
  std::string escaped;
  for (const char c : dump(data)) {
    switch (c) {
      case '<': escaped += "\\u003c"; break;
      case '>': escaped += "\\u003e"; break;
      case '&': escaped += "\\u0026"; break;
      default: escaped += c;
    }
  }
  return escaped;
}

std::string make_page(std::string_view title, const ordered_json& data) {
  return make_page(title, data, {.script = page_script});
}

std::string make_page(std::string_view title, const ordered_json& data, const PageParts& own) {
  const std::string shown_title = escape_html(title), json = script_json(data);
  const std::string licences = escape_html(page_licences);
  const std::string style = std::string(page_css).append(own.style);
  const std::pair<std::string_view, std::string_view> parts[] = {
      {"{{title}}", shown_title},
      {"{{style}}", style},
      {"{{top}}", own.top},
      {"{{data}}", json},
      {"{{chart.js}}", page_chart_js},
      {"{{charts}}", page_charts},
      {"{{script}}", own.script},
      {"{{licences}}", licences},
      {"{{policy}}", own.asks_its_server ? "; connect-src 'self'" : ""}};
  // One pass over the template: what is put in is not searched again.
  std::string page;
  std::string_view rest = page_html;
  while (!rest.empty()) {
    const size_t mark = rest.find("{{");
    page += rest.substr(0, mark);
    if (mark == rest.npos) break;
    rest.remove_prefix(mark);
    std::string_view text = rest.substr(0, 2);  // of no part: as it is
    size_t length = 2;
    for (const auto& [name, content] : parts) {
      if (!rest.starts_with(name)) continue;
      text = content;
      length = name.size();
    }
    page += text;
    rest.remove_prefix(length);
  }
  return page;
}

}  // namespace folio::cli
