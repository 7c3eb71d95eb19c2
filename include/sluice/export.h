#pragma once

/// Marks the interface of libsluice.so: classes, and functions that are not inline. Symbols without
/// this mark are not visible to programs.
#define SLUICE_EXPORT [[gnu::visibility("default")]]
