// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/fake_device.cpp: memory and streams of the device of the tests.
#include "cuda/fake_device.h"

#include <algorithm>
#include <cstdio>

namespace folio::test {
namespace {

constexpr int64_t memory_alignment = 256;

uint64_t mixed(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

bool may_run(const Work& work) {
  return std::ranges::all_of(work.after, [](const std::weak_ptr<Work>& before) {
    const std::shared_ptr<Work> other = before.lock();
    return other == nullptr || other->is_done;
  });
}

}  // namespace

void* FakeDevice::allocate(int64_t bytes, MemoryKind kind) {
  auto storage = std::make_unique<unsigned char[]>(static_cast<size_t>(bytes + memory_alignment));
  const auto address = reinterpret_cast<uintptr_t>(storage.get());
  unsigned char* const begin =
      storage.get() + (memory_alignment - address % memory_alignment) % memory_alignment;
  std::memset(begin, 0xff, static_cast<size_t>(bytes));
  storage_.push_back(std::move(storage));
  memory_.push_back({begin, bytes, kind, 0});
  return begin;
}

bool FakeDevice::release(void* begin) {
  for (size_t i = 0; i < memory_.size(); ++i) {
    if (memory_[i].begin != begin) continue;
    memory_.erase(memory_.begin() + static_cast<std::ptrdiff_t>(i));
    storage_.erase(storage_.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
  }
  return false;
}

const MemoryRange* FakeDevice::range_of(const void* begin, int64_t bytes) const {
  const auto at = reinterpret_cast<uintptr_t>(begin);
  for (const MemoryRange& range : memory_) {
    const auto first = reinterpret_cast<uintptr_t>(range.begin);
    if (at >= first &&
        at + static_cast<uintptr_t>(bytes) <= first + static_cast<uintptr_t>(range.bytes))
      return &range;
  }
  return nullptr;
}

FakeStream* FakeDevice::add_stream() { return &streams_.emplace_back(); }

FakeStream* FakeDevice::stream(void* handle) {
  if (handle == nullptr) return null_;
  for (FakeStream& stream : streams_) {
    if (&stream == handle && &stream != null_) return &stream;
  }
  return nullptr;
}

bool FakeDevice::remove_stream(void* handle) {
  if (handle == nullptr) return false;
  return streams_.remove_if([&](const FakeStream& s) { return &s == handle && &s != null_; }) == 1;
}

int FakeDevice::put(FakeStream& stream, Operation operation) {
  if (stream.capture == Capture::invalidated) return capture_invalidated;
  if (stream.capture == Capture::active) {
    stream.captured.push_back(std::move(operation));
    return success;
  }
  auto work = std::make_shared<Work>();
  work->operation = std::move(operation);
  if (stream.last != nullptr) work->after.push_back(stream.last);
  if (&stream == null_) {
    for (const FakeStream& other : streams_) work->after.push_back(other.last);
  } else if (null_->last != nullptr) {
    work->after.push_back(null_->last);
  }
  stream.last = work;
  waiting_.push_back(work);
  if (driver_.order == WorkOrder::eager) finish(nullptr);
  return success;
}

void FakeDevice::wait_for(FakeStream& stream, const std::shared_ptr<Work>& work) {
  auto both = std::make_shared<Work>();
  both->operation = [] { return std::string(); };
  both->after = {stream.last, work};
  stream.last = both;
  waiting_.push_back(both);
}

void FakeDevice::run(Work& work) {
  work.is_done = true;
  if (is_broken()) return;
  const std::string fault = work.operation();
  fault.copy(driver_.fault, sizeof driver_.fault - 1);
  if (driver_.prints_faults && !fault.empty())
    std::fprintf(stderr, "emulated device: %s\n", fault.c_str());
}

void FakeDevice::finish(const std::shared_ptr<Work>& work) {
  while (work == nullptr ? !waiting_.empty() : !work->is_done) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < waiting_.size(); ++i) {
      if (may_run(*waiting_[i])) ready.push_back(i);
    }
    const size_t pick = ready[mixed(driver_.seed * 0x9e3779b97f4a7c15u + ++drawn_) % ready.size()];
    const std::shared_ptr<Work> next = waiting_[pick];
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(pick));
    run(*next);
  }
}

bool FakeDevice::break_captures() {
  bool found = false;
  for (FakeStream& stream : streams_) {
    if (stream.capture != Capture::active) continue;
    stream.capture = Capture::invalidated;
    found = true;
  }
  return found;
}

}  // namespace folio::test
