#pragma once

#include <string>
#include <string_view>

/// The web pages of folder web/, each a whole HTML file with its styles and scripts: it loads no
/// other file.
namespace sluice::pages {

/// The page of `sluice advise --html`, without its data.
std::string_view advice_page();

/// The page of `sluice replay --html`, without its data.
std::string_view report_page();

/// The page of `sluice playground`, which asks its server for /v1/simulate.
std::string_view playground_page();

/// JSON in which each '<', which only strings have, is "\u003c": no text in it can end the script
/// element that it is placed in, or begin another element.
std::string escaped(std::string_view json);

/// The page with `json`, escaped, as its data. REQUIRES: the page is one of this header.
std::string filled(std::string_view page, std::string_view json);

}  // namespace sluice::pages
