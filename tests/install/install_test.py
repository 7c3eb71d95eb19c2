"""Installs Sluice below a temporary folder and from its Debian packages, and uses the result as
another project would: with the examples, copied out of the project. Also makes the API reference.

Builds in the project's build folders, where `make test` has built everything before. Changes
nothing outside of them and of the temporary folder.
"""

import glob
import gzip
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from harness import (ROOT, Connection, Process, SystemTest, exchange, free_port, read_text,
                     unit_command, unit_settings, write_text)
from tests.docs.links import dangling_links

CXX = os.environ.get("CXX", "g++")
# The objects of tests/library, compiled against the public headers, and what links them.
LIBRARY_TEST = [path for path in os.environ.get("LIBRARY_TEST", "").split(":") if path]
LIBRARY_TEST_LINK = os.environ.get("LIBRARY_TEST_LINK", CXX).split()
MAN_PAGES = sorted(os.listdir(os.path.join(ROOT, "docs", "man")))
PROMISED = "1: go ahead, 4 left\n5: go ahead, 0 left\n6: not now, in 10 minutes\n"


def run(*command, **options):
    """Runs a program, which must succeed. Returns its output."""
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "DESTDIR")}
    environment |= options.pop("env", {})
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False, env=environment, timeout=500, **options)
    if done.returncode != 0:
        end = done.stdout[-4000:]
        raise AssertionError(f"{' '.join(command)}\nended with {done.returncode}:\n{end}")
    return done.stdout


def make(*arguments):
    """As an administrator whose files are for him alone. The program is built before, since tests
    run it as another user, too."""
    run("make", "-s", "-C", ROOT, "build")
    return run("make", "-s", "-C", ROOT, *arguments, umask=0o077)


class Elsewhere(SystemTest):
    """The folder of another project, and the commands of its developer."""

    def example(self):
        """A copy of the example, outside the project."""
        return shutil.copytree(os.path.join(ROOT, "examples", "installed"),
                               os.path.join(self.temporary_folder(), "login"))

    def build_with_cmake(self, prefix, *options):
        source = self.example()
        build = os.path.join(source, "build")
        run("cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}",
            f"-DCMAKE_CXX_COMPILER={CXX}", *options)
        run("cmake", "--build", build)
        return os.path.join(build, "login")

    def build_with_pkg_config(self, library_folder, *options):
        """Builds with these options for pkg-config and the compiler: --static and -static, or
        none."""
        source = self.example()
        flags = run("pkg-config", "--cflags", "--libs", *(f"-{option}" for option in options),
                    "sluice", env={"PKG_CONFIG_PATH": os.path.join(library_folder, "pkgconfig")})
        program = os.path.join(source, "login")
        run(CXX, "-std=c++20", *options, os.path.join(source, "main.cc"), "-o", program,
            *flags.split())
        return program

    def check_program(self, program, shared_from=None):
        """The program works, and needs libsluice.so only if `shared_from` is given."""
        needed = "libsluice.so" in run("readelf", "-d", program)
        self.assertEqual(needed, shared_from is not None)
        printed = run(program, env={"LD_LIBRARY_PATH": shared_from or ""})
        lines = printed.splitlines(keepends=True)
        self.assertEqual("".join(lines[:1] + lines[4:]), PROMISED)


class Install(Elsewhere):
    """`make install` below DESTDIR; the tree is used there, and not at PREFIX."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="sluice-install-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        make("install", f"DESTDIR={cls.folder}", "PREFIX=/opt/sluice")
        cls.prefix = os.path.join(cls.folder, "opt", "sluice")
        cls.library_folder = os.path.join(cls.prefix, "lib")

    def test_everything_is_there_and_knows_no_other_place(self):
        files = [os.path.relpath(os.path.join(folder, name), self.folder)
                 for folder, _, names in os.walk(self.folder) for name in names]
        for name in ("bin/sluice", "lib/libsluice.a", "lib/libsluice.so", "include/sluice/sluice.h",
                     "lib/pkgconfig/sluice.pc", "lib/cmake/sluice/sluice-config.cmake",
                     "lib/systemd/system/sluice.service", "lib/systemd/system/sluice.socket",
                     "share/sluice/grafana/sluice.json",
                     "share/sluice/prometheus/sluice-alerts.yaml",
                     "share/doc/sluice/LICENSE", "share/doc/sluice/docs/failure.md",
                     *("share/man/man1/" + page for page in MAN_PAGES)):
            self.assertIn("opt/sluice/" + name, files)
        self.assertEqual([name for name in files if not name.startswith("opt/sluice/")], [])
        for folder, _, names in os.walk(self.prefix):
            for path in (folder, *(os.path.join(folder, name) for name in names)):
                self.assertEqual(os.stat(path).st_mode & 0o044, 0o044, path)
        for name in files:
            with open(os.path.join(self.folder, name), "rb") as file:
                content = file.read()
            self.assertNotIn(ROOT.encode(), content, name)
            self.assertNotIn(self.folder.encode(), content, name)

    def test_the_pages_are_whole(self):
        pages = os.path.join(self.prefix, "share", "doc", "sluice")
        self.assertEqual(list(dangling_links(pages)), [])
        for page in ("README.md", "docs/limits.md", "src/algorithms/README.md",
                     *glob.glob("src/algorithms/*/README.md", root_dir=ROOT)):
            self.assertTrue(os.path.isfile(os.path.join(pages, page)), page)

    def test_program(self):
        self.assertRegex(run(os.path.join(self.prefix, "bin", "sluice"), "--version"), r"\d+\.\d+")

    def test_each_header_compiles_alone_and_includes_only_std(self):
        headers = glob.glob("sluice/**/*.h", root_dir=os.path.join(self.prefix, "include"),
                            recursive=True)
        self.assertIn("sluice/sluice.h", headers)
        for header in headers:
            with self.subTest(header):
                run(CXX, "-std=c++20", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only",
                    "-I", os.path.join(self.prefix, "include"), "-include", header, "-x", "c++",
                    os.devnull)
                text = read_text(os.path.join(self.prefix, "include", header))
                included = re.findall(r"#\s*include\s+(\S+)", text)
                if header != "sluice/asio.h":
                    for name in included:
                        self.assertRegex(name, r'^(<[a-z_0-9]+>|"sluice/\w+\.h")$')

    def test_find_package_static(self):
        self.check_program(self.build_with_cmake(self.prefix))

    def test_find_package_shared(self):
        program = self.build_with_cmake(self.prefix, "-DBUILD_SHARED_LIBS=ON")
        self.check_program(program, shared_from=self.library_folder)

    def test_the_other_examples_by_what_their_readme_says(self):
        """All are configured, and one is built: tests/examples builds each."""
        source = shutil.copytree(os.path.join(ROOT, "examples"),
                                 os.path.join(self.temporary_folder(), "examples"))
        build = os.path.join(source, "build")
        run("cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}",
            f"-DCMAKE_CXX_COMPILER={CXX}")
        run("cmake", "--build", build, "--target", "queue_worker")
        self.assertNotIn("libsluice", run("readelf", "-d", os.path.join(build, "queue_worker")))

    def test_pkg_config_static(self):
        self.check_program(self.build_with_pkg_config(self.library_folder, "-static"))

    def test_pkg_config_shared(self):
        program = self.build_with_pkg_config(self.library_folder)
        self.check_program(program, shared_from=self.library_folder)

    def test_shared_library_offers_what_the_headers_declare_and_no_more(self):
        library = os.path.join(self.library_folder, "libsluice.so")
        symbols = run("nm", "-DC", "--defined-only", library).splitlines()
        functions = [found[1] for line in symbols if (found := re.match(r"\w+ T (.*)", line))]
        self.assertIn("sluice::KeyedLimiter::peek", "\n".join(functions))
        headers = glob.glob(os.path.join(self.prefix, "include", "sluice", "*.h"))
        text = "".join(map(read_text, headers))
        for function in functions:
            with self.subTest(function):
                name = re.match(r"(?:.* )?sluice::(\w+)", function.split("(")[0])
                self.assertTrue(name, function)
                self.assertRegex(text, rf"\b{name[1]}\b")

        program = os.path.join(self.temporary_folder(), "library_test")
        run(*LIBRARY_TEST_LINK, *LIBRARY_TEST, "-o", program, "-L", self.library_folder, "-lsluice",
            "-lgmock_main", "-lgmock", "-lgtest", "-pthread")
        self.assertIn("PASSED", run(program, env={"LD_LIBRARY_PATH": self.library_folder}))


class DebianPackages(Elsewhere):
    """`make package`, with the packages installed by dpkg below a folder."""

    def test_packages(self):
        make("package")
        packages = {self.field(path, "Package"): path
                    for path in glob.glob(os.path.join(ROOT, "build", "packages", "*.deb"))}
        library = next(name for name in packages if re.fullmatch(r"libsluice\d+(\.\d+)?", name))
        self.assertEqual(set(packages), {"sluice", "libsluice-dev", library})
        for name, path in packages.items():
            self.assertEqual(self.field(path, "Maintainer"), "The Sluice project")
            self.check_licenses(path, name)
            self.check_changelog(path, name)
            for entry in run("dpkg-deb", "-c", path).splitlines():
                self.assertRegex(entry, "^(l|d|-)(rwxr-xr-x|rw-r--r--|rwxrwxrwx) ")
        self.assertIn("libyaml-cpp", self.field(packages["sluice"], "Depends"))
        self.assertIn("libssl3", self.field(packages[library], "Depends"))
        self.assertIn(f"{library} (= ", self.field(packages["libsluice-dev"], "Depends"))
        self.assertIn("libssl-dev", self.field(packages["libsluice-dev"], "Depends"))
        self.assertIn("libboost", self.field(packages["libsluice-dev"], "Suggests"))

        share = self.check_documentation(packages["sluice"])

        root = self.install(packages.values())
        self.assertRegex(run(os.path.join(root, "usr", "bin", "sluice"), "--version"), r"\d+\.\d+")
        self.check_service(root, os.path.join(share, "doc", "sluice", "examples", "sluice.yaml"))
        found = glob.glob(os.path.join(root, "usr", "lib", "**", "libsluice.so"), recursive=True)
        library_folder = os.path.dirname(found[0])
        self.assertIn("-linux-", library_folder)
        prefix = os.path.join(root, "usr")
        self.check_program(self.build_with_cmake(prefix))
        self.check_program(self.build_with_pkg_config(library_folder), shared_from=library_folder)

    def unpacked(self, package):
        """Its folder usr/share. Not installed: dpkg may be told to leave documentation out."""
        root = self.temporary_folder()
        run("dpkg-deb", "-x", package, root)
        return os.path.join(root, "usr", "share")

    def check_licenses(self, package, name):
        """The licenses of the code that the package contains, in Debian's place."""
        share = self.unpacked(package)
        text = read_text(os.path.join(share, "doc", name, "copyright"))
        words = " ".join(word for word in text.split() if word != ".")
        text = read_text(os.path.join(ROOT, "web", "dygraphs-license.txt"))
        _, holders, *paragraphs = text.split("\n\n")
        for text in [holder.removeprefix("Copyright (c) ") for holder in holders.splitlines()] + \
                paragraphs + ["Apache-2.0", "Files: CLI11", "Files: xxHash", "Files: Boost"]:
            self.assertIn(" ".join(text.split()), words, name)

    def check_changelog(self, package, name):
        """In Debian's format, for the version of the package."""
        share = self.unpacked(package)
        path = os.path.join(share, "doc", name, "changelog.gz")
        self.expect_no_time(path)
        changelog = os.path.join(share, "changelog")
        with gzip.open(path) as compressed, open(changelog, "wb") as file:
            file.write(compressed.read())
        fields = run("dpkg-parsechangelog", "-l", changelog)
        self.assertIn("Source: sluice\n", fields)
        self.assertIn(f"Version: {self.field(package, 'Version')}\n", fields)
        self.assertNotIn("warning", fields)

    def expect_no_time(self, path):
        """The same files make the same package."""
        with open(path, "rb") as file:
            self.assertEqual(file.read(8)[4:], bytes(4), path)

    def check_documentation(self, package):
        share = self.unpacked(package)
        self.assertEqual(list(dangling_links(os.path.join(share, "doc", "sluice"))), [])
        folder = os.path.join(share, "man", "man1")
        self.assertEqual(sorted(os.listdir(folder)), [page + ".gz" for page in MAN_PAGES])
        for page in MAN_PAGES:
            self.expect_no_time(os.path.join(folder, page + ".gz"))
            with gzip.open(os.path.join(folder, page + ".gz")) as packed, \
                    open(os.path.join(ROOT, "docs", "man", page), "rb") as written:
                self.assertEqual(packed.read(), written.read())
        return share

    def check_service(self, root, config):
        """Starts the server as systemd would by its unit, with the configuration that the package
        has, and asks it; twice, since the second one has the snapshot of the first."""
        settings = unit_settings(os.path.join(root, "usr", "lib", "systemd", "system",
                                              "sluice.service"))
        # Where the unit reads it from, with other ports than those of the configuration.
        resp, http = ("127.0.0.1", free_port()), ("127.0.0.1", free_port())
        environment = settings["EnvironmentFile"].removeprefix("-")
        self.assertEqual(environment, "/etc/default/sluice")
        options = f"--config {config} --resp 127.0.0.1:{resp[1]} --http 127.0.0.1:{http[1]}"
        state = os.path.join(root, "var", "lib")
        os.makedirs(os.path.join(state, settings["StateDirectory"]))
        program, *arguments = unit_command(settings, state, {"SLUICE_OPTIONS": options})
        check = b'{"limit": "login", "key": "k"}'
        post = b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" \
               b"Content-Length: %d\r\n\r\n%s" % (len(check), check)
        for remaining in (4, 2):
            with Process(os.path.join(root, "usr", "bin", program), *arguments) as server:
                server.await_listening(resp)
                with Connection(resp) as connection:
                    self.assertEqual(connection.ask("SLUICE.CHECK", "login", "k")[:3],
                                     [1, 5, remaining])
                reply = exchange(http, post)
                self.assertIn(b'"remaining":%d,' % (remaining - 1), reply)
                self.assertEqual(server.stop(), 0)

    def field(self, package, name):
        return run("dpkg-deb", "-f", package, name).strip()

    def install(self, packages):
        """Installs below a folder, with a copy of this machine's list of packages: dpkg refuses
        if a dependency is missing."""
        root = self.temporary_folder()
        database = os.path.join(root, "var", "lib", "dpkg")
        for folder in ("info", "updates", "triggers"):
            os.makedirs(os.path.join(database, folder))
        shutil.copy("/var/lib/dpkg/status", database)
        self.assertNotRegex(read_text("/var/lib/dpkg/status"), r"(?m)^Package: (lib)?sluice")
        # The library's scripts run ldconfig; this replaces that of the machine.
        tools = os.path.join(root, "tools")
        os.makedirs(tools)
        stub = os.path.join(tools, "ldconfig")
        write_text(stub, f"#!/bin/sh\ntouch {root}/ldconfig_ran\n")
        os.chmod(stub, 0o755)
        run("dpkg", f"--root={root}", "--force-not-root", "--force-script-chrootless", "--install",
            *packages, env={"PATH": tools + os.pathsep + os.environ["PATH"]})
        self.assertTrue(os.path.exists(os.path.join(root, "ldconfig_ran")))
        return root


class Reference(unittest.TestCase):
    def test_every_public_name_is_described(self):
        make("docs")
        page = os.path.join(ROOT, "build", "docs", "html", "classsluice_1_1Limiter.html")
        self.assertIn("peek", read_text(page))
