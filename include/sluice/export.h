#pragma once

/// Marks what libsluice.so offers to programs: classes, and functions that are not inline. What is
/// not marked stays within it.
#define SLUICE_EXPORT [[gnu::visibility("default")]]
