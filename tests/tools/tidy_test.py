"""Tests of tools/tidy: for each rule a file that breaks it, and the fault that it must report."""

import importlib.machinery
import importlib.util
import os
import sys
import tempfile
import unittest

from harness import ROOT, run, write_text

TIDY = os.path.join(ROOT, "tools", "tidy")


def load_tidy():
    loader = importlib.machinery.SourceFileLoader("tidy", TIDY)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tidy", loader))
    sys.modules["tidy"] = module
    loader.exec_module(module)
    return module


tidy = load_tidy()


def faults_of(texts):
    return tidy.faults_of([tidy.File(path, text) for path, text in texts.items()])


def function_of(lines):
    return "int f() {\n" + "  g();\n" * (lines - 2) + "}\n"


class Rules(unittest.TestCase):
    def expect(self, path, text, fault):
        found = faults_of({path: text})
        self.assertEqual(len(found), 1, found)
        self.assertIn(fault, found[0])

    def expect_none(self, path, text):
        self.assertEqual(faults_of({path: text}), [])

    def test_columns(self):
        self.expect_none("src/core/a.cc", "/" * 100 + "\n")
        self.expect("src/core/a.cc", "/" * 101 + "\n", "a.cc:1: 101 columns")
        self.expect("Makefile", "#" * 101 + "\n", "101 columns")
        self.expect_none("README.md", "x" * 500 + "\n")

    def test_white_space(self):
        self.expect("src/core/a.cc", "int a; \n", "white space at the end")
        self.expect("src/core/a.cc", "\tint a;\n", "a tab")
        self.expect_none("Makefile", "all:\n\ttrue\n")
        self.expect("src/core/a.cc", "int a;", "no newline at the end")

    def test_file_length(self):
        self.expect_none("src/core/a.cc", "int a;\n" * 800)
        self.expect("src/core/a.cc", "int a;\n" * 801, "801 lines, at most 800")

    def test_leftovers(self):
        for word in ("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"):
            self.expect("src/core/a.cc", f"// {word}: later\n", "a leftover: " + word)
            self.expect("README.md", f"{word}\n", "a leftover")
        self.expect_none("README.md", "hackneyed\n")

    def test_foreign_words(self):
        for words in ("/wo" + "rk/main", ".." + "/shared", "registry.npm" + "js.org"):
            self.expect("docs/a.md", f"see {words}\n", "not about the project")

    def test_sleep(self):
        sleep = "std::this_thread::sleep" + "_for(1ms);\n"
        self.expect("src/core/a_test.cc", sleep, "does not sleep")
        self.expect_none("src/net/a.cc", sleep)

    def test_skip(self):
        self.expect("src/core/a_test.cc", "GTEST_" + "SKIP();\n", "does not run")
        self.expect("tests/system/a.py", "@unittest.ski" + "p('x')\ndef f(): g()\n",
                    "does not run")

    def test_pragma_once(self):
        self.expect("src/core/a.h", "int a;\n", "no #pragma once")
        self.expect_none("src/core/a.h", "#pragma once\nint a;\n")

    def test_public_headers(self):
        header = "#pragma once\n#include {}\n"
        self.expect_none("include/sluice/a.h", header.format("<vector>"))
        self.expect_none("include/sluice/asio.h", header.format("<boost/asio/post.hpp>"))
        self.expect("include/sluice/a.h", header.format("<boost/asio/post.hpp>"),
                    "a public header includes")
        self.expect_none("include/sluice/a.h", header.format('"sluice/limit.h"'))
        for name in ("<boost/asio.hpp>", "<stdint.h>", '"core/store.h"'):
            self.expect("include/sluice/a.h", header.format(name), "a public header includes")

    def test_arrows_in_includes(self):
        store = '#include "stores/stores.h"\n'
        self.expect_none("src/limiter/a.cc", store)
        self.expect_none("src/stores/a.cc", store)
        self.expect("src/stores/memory/a.cc", store, "stores/memory may not include stores")
        self.expect("src/stores/redis/a.cc", '#include "stores/memory/table.h"\n', "may not")
        self.expect("src/algorithms/a.cc", store, "algorithms may not include stores")
        self.expect("src/net/a.cc", '#include "core/store.h"\n', "net may not include core")
        self.expect("src/waiting/a.cc", '#include "limiter/a.h"\n', "waiting may not include")
        self.expect("src/fallback/a.cc", '#include "waiting/a.h"\n', "fallback may not include")
        self.expect("examples/a.cc", store, "an example may not include stores")
        self.expect_none("examples/queue/a.cc", '#include "queue.h"\n')
        self.expect("src/core/a.cc", '#include "store.h"\n', 'write "module/header.h"')
        self.expect("src/attic/a.cc", "int a;\n", "in no module")
        self.expect_none("src/protocols/telnet/a.cc", '#include "service/server_context.h"\n'
                         '#include "protocols/telnet/a.h"\n#include "net/stream_handler.h"\n')
        self.expect("src/protocols/telnet/a.cc", '#include "protocols/resp/writer.h"\n',
                    "protocols/telnet may not include protocols/resp")
        self.expect("src/protocols/telnet/a.cc", '#include "net/address.h"\n',
                    "may not include net")
        self.expect_none("src/stores/attic/a.cc", '#include "stores/remote/remote_store.h"\n')
        self.expect("src/stores/attic/a.cc", '#include "stores/redis/resp.h"\n',
                    "stores/attic may not include stores/redis")
        self.expect_none("src/stores/a.cc", '#include "stores/attic/a.h"\n')
        self.expect("src/limiter/a.cc", '#include "stores/attic/a.h"\n', "may not include")
        self.expect("src/service/a.cc", '#include "protocols/resp/writer.h"\n', "may not include")
        self.expect("src/net/a.cc", '#include "protocols/resp/writer.h"\n', "may not include")
        server = '#include "servers/redis_server.h"\n'
        self.expect_none("src/stores/redis/a_test.cc", server)
        self.expect("src/stores/redis/a.cc", server, 'write "module/header.h"')

    def test_arrows_in_links(self):
        self.expect_none("src/limiter/CMakeLists.txt", "sluice_module(limiter MODULES stores)\n")
        upward = "sluice_module(stores\n  SOURCES a.cc\n  MODULES limiter\n  TESTS a_test.cc)\n"
        self.expect("src/stores/CMakeLists.txt", upward, "stores may not link limiter")
        self.expect("src/attic/CMakeLists.txt", "sluice_module(attic SOURCES a.cc)\n", "no row")
        self.expect_none("src/server/CMakeLists.txt",
                         "sluice_module(server MODULES ${protocol_modules} service)\n")
        self.expect_none("src/stores/CMakeLists.txt",
                         "sluice_module(stores MODULES core ${store_modules})\n")
        self.expect("src/fallback/CMakeLists.txt",
                    "sluice_module(fallback MODULES ${store_modules})\n", "may not link stores/*")
        self.expect("src/protocols/telnet/CMakeLists.txt",
                    "sluice_module(protocols/telnet MODULES server)\n", "may not link server")
        self.expect_none("src/protocols/telnet/CMakeLists.txt",
                         "sluice_module(protocols/telnet MODULES service net)\n")

    def test_pure_algorithms(self):
        clock = "auto now = std::chrono::steady_clock::now();\n"
        folder = {"src/algorithms/x/README.md": "", "src/algorithms/x/x_test.cc": clock}
        self.assertEqual(faults_of({**folder, "src/algorithms/x/x.h": "#pragma once\n"}), [])
        found = faults_of({**folder, "src/algorithms/x/x.h": "#pragma once\n" + clock})
        self.assertEqual(len(found), 1, found)
        self.assertIn("a pure transition", found[0])

    def test_algorithm_folders(self):
        found = faults_of({"src/algorithms/x/x.h": "#pragma once\n"})
        self.assertEqual(found, ["src/algorithms/x:1: no README.md",
                                 "src/algorithms/x:1: no x_test.cc"])


class Circles(unittest.TestCase):
    def faults(self, includes):
        """Of a module whose files include each other so: {file name: names that it includes}."""
        texts = {}
        for name, targets in includes.items():
            text = "#pragma once\n" if name.endswith(".h") else ""
            texts["src/core/" + name] = text + "".join(
                f'#include "core/{target}"\n' for target in targets)
        return faults_of(texts)

    def test_none(self):
        self.assertEqual(self.faults({"a.h": ["b.h", "c.h"], "b.h": ["c.h"], "c.h": [],
                                      "a_test.cc": ["a.h"]}), [])

    def test_a_source_belongs_to_its_header(self):
        self.assertEqual(self.faults({"a.h": [], "a.cc": ["a.h"]}), [])
        self.assertEqual(self.faults({"a.h": [], "a.cc": ["a.h", "b.h"], "b.h": ["a.h"]}),
                         ["src/core/a:1: a circle of includes: "
                          "src/core/a -> src/core/b -> src/core/a"])

    def test_each_circle_is_named(self):
        found = self.faults({"a.h": ["b.h"], "b.h": ["c.h"], "c.h": ["a.h"],
                             "d.h": ["e.h"], "e.h": ["d.h", "a.h"]})
        self.assertEqual(len(found), 2, found)
        self.assertIn("src/core/a -> src/core/b -> src/core/c -> src/core/a", found[0])
        self.assertIn("src/core/e -> src/core/d -> src/core/e", found[1])

    def test_public_headers(self):
        header = '#pragma once\n#include "sluice/{}.h"\n'
        found = faults_of({"include/sluice/a.h": header.format("b"),
                           "include/sluice/b.h": header.format("a")})
        self.assertEqual(len(found), 1, found)


class FunctionLength(unittest.TestCase):
    def test_bound(self):
        self.assertEqual(faults_of({"a.cc": function_of(70)}), [])
        self.assertEqual(faults_of({"a.cc": function_of(71)}),
                         ["a.cc:1: f has 71 lines, at most 70"])

    def test_python(self):
        text = "def f():\n" + "    g()\n" * 70
        self.assertEqual(faults_of({"a.py": text}), ["a.py:1: f has 71 lines, at most 70"])

    def names(self, text):
        return [name for _, name, _ in tidy.cpp_functions(text)]

    def test_what_a_function_is(self):
        nested = "namespace a {\nclass B : public C<D()> {\n  int f() {}\n};\n}"
        self.assertEqual(self.names(nested), ["f"])
        self.assertEqual(self.names("template <class T, class U = A<int>>\nT f(T t) { return t; }"),
                         ["f"])
        self.assertEqual(len(self.names("struct A {\n bool operator==(A a) const {}\n};")), 1)
        self.assertEqual(self.names("TEST(Suite, name) {\n  auto f = [] { g(); };\n}"),
                         ["Suite.name"])
        self.assertEqual(self.names("const int kTable[] = {1, 2};\nenum class E { a };"), [])
        literals = 'const char* s = "{";\n// {\nint f() { return \'{\'; }'
        self.assertEqual(self.names(literals), ["f"])
        self.assertEqual(self.names('auto s = R"x({ { {)x";\n#define M() {\nint g() {}'), ["g"])


class CommandLine(unittest.TestCase):
    def test_exit_codes_and_last_line(self):
        with tempfile.TemporaryDirectory() as folder:
            write_text(os.path.join(folder, "a.h"), "#pragma once\n")
            good = run(TIDY, folder)
            self.assertEqual((good.returncode, good.stdout), (0, "tidy: 1 files, 0 faults\n"))
            write_text(os.path.join(folder, "b.h"), "int b;\n")
            bad = run(TIDY, folder)
            self.assertEqual(bad.returncode, 1)
            self.assertEqual(bad.stdout, "b.h:1: no #pragma once\ntidy: 2 files, 1 faults\n")

    def test_other_tools_refuse_what_they_do_not_know(self):
        for tool, fault in (("setup", 'no group "everything"'), ("lint", "usage:")):
            result = run(os.path.join(ROOT, "tools", tool), "everything")
            self.assertEqual(result.returncode, 2, result)
            self.assertIn(fault, result.stderr)
