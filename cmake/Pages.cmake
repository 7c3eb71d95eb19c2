# Bundles the web pages of web/ into the program.
find_program(ESBUILD esbuild REQUIRED)
find_file(DYGRAPHS dygraph.min.js PATHS /usr/share/javascript/dygraphs NO_DEFAULT_PATH REQUIRED)
file(GLOB page_sources CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/web/*.html ${PROJECT_SOURCE_DIR}/web/*.txt
     ${PROJECT_SOURCE_DIR}/web/*/*.ts
     ${PROJECT_SOURCE_DIR}/web/*/*.css)

# sluice_page(report "The title" ["; further rules of its Content-Security-Policy"])
# Bundles web/NAME/main.ts and web/NAME/style.css, with all that they import, into one HTML file
# made from web/frame.html, and embeds it in C++ as sluice::pages::NAME_page() of "pages/pages.h".
# Sets NAME_page to the path of the C++ file. The HTML file is beside it.
function(sluice_page name title)
  set(web ${PROJECT_SOURCE_DIR}/web)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${name})
  add_custom_command(
    OUTPUT ${out}_page.cc
    BYPRODUCTS ${out}.js ${out}.css ${out}.html
    COMMAND ${ESBUILD} ${web}/${name}/main.ts --bundle --minify --target=es2020 --charset=utf8
            --format=iife --alias:dygraphs=${DYGRAPHS} --log-level=warning --outfile=${out}.js
    COMMAND ${ESBUILD} ${web}/${name}/style.css --bundle --minify --log-level=warning
            --outfile=${out}.css
    COMMAND ${CMAKE_COMMAND} -DNAME=${name} -DTITLE=${title} -DWEB=${web} -DOUT=${out}
            "-DPOLICY=${ARGN}"
            -P ${PROJECT_SOURCE_DIR}/cmake/EmbedPage.cmake
    DEPENDS ${page_sources} ${DYGRAPHS} ${PROJECT_SOURCE_DIR}/cmake/EmbedPage.cmake
    COMMENT "Bundling the page ${name}"
    VERBATIM)
  set(${name}_page ${out}_page.cc PARENT_SCOPE)
endfunction()
