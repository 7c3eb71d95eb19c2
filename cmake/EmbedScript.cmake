# Joins several Lua files to one script and embeds it in C++. Run as
#   cmake -DFRAME=frame.lua -DROOT=folder -DOUTPUT=out.cc -P EmbedScript.cmake
# A line "--> path" of the frame is replaced by the file ROOT/path. Comments and indentation are
# removed, because the script is sent to Redis, which keeps it. OUTPUT defines script_text() and
# script_sha(), the script's SHA-1 in hexadecimal.
file(READ ${FRAME} script)
string(REGEX MATCHALL "--> [^\n]+" pieces "${script}")
foreach(piece IN LISTS pieces)
  string(REPLACE "--> " "" path ${piece})
  file(READ ${ROOT}/${path} text)
  string(REPLACE "${piece}\n" "${text}" script "${script}")
endforeach()

string(REGEX REPLACE "(^|\n)[ ]*--[^\n]*" "\\1" script "${script}")
string(REGEX REPLACE "\n[ \n]+" "\n" script "${script}")
string(REGEX REPLACE "^\n" "" script "${script}")
string(SHA1 sha "${script}")
file(WRITE ${OUTPUT} "#include \"stores/redis/script_call.h\"

namespace sluice::redis {

std::string_view script_text() {
  return R\"lua(${script})lua\";
}

std::string_view script_sha() {
  return \"${sha}\";
}

}  // namespace sluice::redis
")
