# SPDX-License-Identifier: Apache-2.0
"""calls.py finds functions and options without a test, and lines of its table that say what is not so."""
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import calls  # noqa: E402

HEADER = """
#pragma once
namespace folio::inline v1 {
enum class Kind : uint8_t { one = 0, two = 1 };
/// Of a machine: tcp://HOST
struct MachineOptions {
  int64_t bytes = 0, pages = 0;  ///< of it
  std::string_view endpoint = "tcp://*:1";
  std::span<const int> parts = {};
  void (*on_end)(void* context) noexcept = nullptr;
  enum class Way : uint8_t { in, out } way = Way::in;
};
struct MachineFigures {
  int64_t runs = 0;
  [[nodiscard]] bool is_busy() const { return runs != 0; }
};
class FOLIO_EXPORT Machine {
 public:
  [[nodiscard]] static Result<Machine> create(const MachineOptions& options = {}) noexcept;
  Machine(Machine&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  Machine& operator=(Machine&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~Machine();
  virtual void run(int64_t rounds) noexcept = 0;

 private:
  void hide();
  void* state_ = nullptr;
};
[[nodiscard]] FOLIO_EXPORT Result<int> count(Kind kind) noexcept;
}  // namespace folio::inline v1
"""
NAMES = {"MachineOptions.bytes", "MachineOptions.pages", "MachineOptions.endpoint",
         "MachineOptions.parts", "MachineOptions.on_end", "MachineOptions.way",
         "MachineFigures::is_busy", "Machine::create", "Machine::Machine", "Machine::run", "count"}
TEST = """TEST(Machine, is_hostile) {
  Machine::create({.bytes = -1, .pages = 0, .endpoint = "", .parts = {}, .on_end = 0, .way = 9});
  m.run(std::move(x).is_busy() ? count(7) : 0); }"""


class Calls(unittest.TestCase):
    def faults(self, table, test=TEST):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for path, text in (("include/folio/tier/machine.h", HEADER),
                               ("tests/tier/hostile/calls.txt", table),
                               ("tests/tier/hostile/machine_test.cpp", test)):
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text, encoding="utf-8")
            return list(calls.faults_of(root))

    def table(self, names=NAMES, test="Machine.is_hostile"):
        return f"# all\nhostile/machine_test.cpp {test}: {' '.join(sorted(names))}\n"

    def test_all_that_callers_give_is_read(self):
        self.assertEqual(set(calls.names_of(HEADER)), NAMES)
        self.assertEqual(self.faults(self.table()), [])

    def test_a_name_without_a_test_is_an_error(self):
        for name in NAMES:
            faults = self.faults(self.table(NAMES - {name}))
            self.assertEqual(len(faults), 1)
            self.assertTrue(faults[0].startswith(name + " is in no line"), faults)
        self.assertEqual(self.faults(self.table(NAMES - {"count"}) + "- any is one: count\n"), [])

    def test_a_line_that_is_not_so_is_an_error(self):
        self.assertIn("Machine::stop of calls.txt is in no header",
                      self.faults(self.table(NAMES | {"Machine::stop"})))
        self.assertIn("hostile/machine_test.cpp has no test Machine.is_kind",
                      self.faults(self.table(test="Machine.is_kind")))
        for used, name in (("m.run(", "Machine::run"), (".way", "MachineOptions.way"),
                           ("std::move(", "Machine::Machine"), ("count(7)", "count")):
            self.assertIn(f"hostile/machine_test.cpp does not use {name}",
                          self.faults(self.table(), TEST.replace(used, "x")))


if __name__ == "__main__":
    unittest.main()
