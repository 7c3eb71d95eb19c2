# Makes one HTML file of WEB/frame.html, a style sheet and a script, and embeds it in C++. Run as
#   cmake -DNAME=report -DTITLE=... -DPOLICY=... -DWEB=folder -DOUT=path -P EmbedPage.cmake
# Reads OUT.css and OUT.js; writes OUT.html, and OUT_page.cc, which defines NAME_page().
cmake_minimum_required(VERSION 3.25)
file(READ ${WEB}/frame.html page)
file(READ ${WEB}/dygraphs-license.txt license)
file(READ ${OUT}.css style)
file(READ ${OUT}.js script)
string(REPLACE "@LICENSE@" "${license}" page "${page}")
string(REPLACE "@TITLE@" "${TITLE}" page "${page}")
string(REPLACE "@NAME@" "${NAME}" page "${page}")
string(REPLACE "@POLICY@" "${POLICY}" page "${page}")
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
file(WRITE ${OUT}.html "${page}")

# As numbers, since compilers bound the length of a string literal.
file(READ ${OUT}.html bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT}_page.cc "#include \"pages/pages.h\"

namespace sluice::pages {

std::string_view ${NAME}_page() {
  static constexpr unsigned char kBytes[] = {${bytes}};
  return {reinterpret_cast<const char*>(kBytes), sizeof kBytes};
}

}  // namespace sluice::pages
")
