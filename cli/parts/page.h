// SPDX-License-Identifier: Apache-2.0
/// cli/parts/page.h: a report as one HTML page that needs nothing else: no network, no other file.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "folio/core/status.h"

namespace folio::cli {

/// Errors: unsupported where the tool was built without Chart.js; `option` asks for a page
Status can_make_pages(std::string_view option = "--report");

/// What a page has beside what all have.
struct PageParts {
  std::string_view script;      ///< behind charts.js
  std::string_view style = {};  ///< behind report.css
  std::string_view top = {};    ///< HTML below the title
  bool asks_its_server = false;
};

/// The page: style, Chart.js with its licence, the script, and `data` as JSON. Text of `title` and
/// `data` is text in the page, whatever it holds; bytes that are no UTF-8 are replaced.
std::string make_page(std::string_view title, const nlohmann::ordered_json& data,
                      const PageParts& own);
/// A report. What `data` has: cli/parts/page/report.js.
std::string make_page(std::string_view title, const nlohmann::ordered_json& data);

/// For HTML, outside tags and inside quoted attributes.
std::string escape_html(std::string_view text);
/// JSON that ends no script element and opens no comment in it, whatever its strings are.
std::string script_json(const nlohmann::ordered_json& data);

}  // namespace folio::cli
