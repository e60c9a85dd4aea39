// SPDX-License-Identifier: Apache-2.0
/// python/src/format.cpp: reads and checks what a Format says, and writes it into shapes and views.
#include "format.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <iterator>
#include <string>
#include <utility>

namespace folio::python {
namespace {

/// What Python holds.
struct FormatHandle {
  SharedFormat format;
};

constexpr const char* zero_names[] = {"none", "patterns", "minimum", "in_scale"};
constexpr int32_t usual_granule = 32;  // elements of four bits that share a scale

bool is_format(nb::handle object) { return nb::isinstance<FormatHandle>(object); }

bool has_scales(const Format& f) { return f.scales() != DType::invalid; }

std::optional<DType> scale_dtype_of(nb::handle object) {
  if (object.is_none()) return {};
  if (nb::cast<std::string>(nb::str(object)) == "none") return DType::invalid;
  const DType dtype = dtype_of(object, "scale_dtype");
  if (!detail::is_scale_dtype(dtype))
    refuse_argument("scale_dtype: expected f32, f16, bf16, f8_e8m0, f8_e4m3 or none, got {}",
                    dtype);
  return dtype;
}

Zeros zeros_of(const std::optional<std::string>& name) {
  if (!name) return Zeros::none;
  for (size_t i = 1; i < std::size(zero_names); ++i)
    if (*name == zero_names[i]) return static_cast<Zeros>(i);
  refuse_argument("zeros: expected \"patterns\", \"minimum\", \"in_scale\" or None, got \"{}\"",
                  *name);
}

std::vector<float> tensor_scales_of(nb::handle object) {
  std::vector<float> scales;
  double one = 0.0;
  if (object.is_none()) return scales;
  if (nb::try_cast(object, one)) {
    scales.push_back(static_cast<float>(one));
  } else if (!nb::try_cast(object, scales) || scales.empty()) {
    refuse_argument("tensor_scale: expected a number, or a list with one for each layer");
  }
  for (const float scale : scales)
    if (!(scale > 0.0f && std::isfinite(scale)))
      refuse_argument("tensor_scale: expected positive finite numbers, got {}",
                      static_cast<double>(scale));
  return scales;
}

Array channel_scales_of(nb::handle object) {
  if (object.is_none()) return {};
  Array a = array_of(object, "channel_scales");
  bool is_dense = a.dtype == DType::f32 && (a.ndim == 2 || a.ndim == 3);
  int64_t dense = 1;
  for (int i = a.ndim - 1; is_dense && i >= 0; --i) {
    is_dense = a.extent[i] == 1 || a.stride[i] == dense;
    dense *= a.extent[i];
  }
  if (!is_dense || dense == 0)
    refuse_argument(
        "channel_scales: expected contiguous f32[heads, head_size], or with [layers] before, got "
        "{}",
        a.description());
  return a;
}

void check_scales(const Format& f) {
  if (f.granularity && *f.granularity < 1)
    refuse_argument("granularity: expected at least 1, got {}", *f.granularity);
  if (has_scales(f)) {
    if (detail::is_block(f.dtype))
      refuse_argument("scale_dtype: {} has its scales in its blocks, expected None", f.dtype);
    return;
  }
  if (detail::is_packed(f.dtype))
    refuse_argument("scale_dtype: {} has scales beside it, expected their dtype or None", f.dtype);
  if (f.granularity) refuse_argument("granularity: given for planes without scales");
  if (!f.tensor_scales.empty()) refuse_argument("tensor_scale: given for planes without scales");
}

void check_zeros(const Format& f) {
  if (f.zeros == Zeros::none) return;
  const char* const name = zero_names[static_cast<size_t>(f.zeros)];
  if (f.dtype != DType::u4 && f.dtype != DType::u4_halves)
    refuse_argument("zeros: \"{}\" is of u4 and u4_halves, got it with {}", name, f.dtype);
  if (f.zeros == Zeros::in_scale && f.scales() != DType::f32)
    refuse_argument("zeros: \"{}\" is of scales of f32, got it with {}", name, f.scales());
  if (f.zeros == Zeros::minimum && bit_width(f.scales()) < 16)
    refuse_argument("zeros: \"{}\" is of scales of f32, f16 or bf16, got it with {}", name,
                    f.scales());
}

void check_hadamard(const std::optional<int32_t>& block, uint32_t sign_seed) {
  if (!block && sign_seed != 0) refuse_argument("sign_seed: given without hadamard");
  if (!block || (*block >= 16 && *block <= 512 && (*block & (*block - 1)) == 0)) return;
  refuse_argument("hadamard: expected a power of two from 16 to 512, or None, got {}", *block);
}

void make_format(FormatHandle* self, nb::handle dtype, nb::handle scale_dtype,
                 std::optional<int32_t> granularity, const std::optional<std::string>& zeros,
                 std::optional<int32_t> hadamard, uint32_t sign_seed, nb::handle channel_scales,
                 nb::handle tensor_scale) {
  auto made = std::make_shared<Format>();
  made->dtype = dtype_of(dtype, "dtype");
  made->zeros = zeros_of(zeros);
  made->scale_dtype = scale_dtype_of(scale_dtype);
  made->granularity = granularity;
  made->tensor_scales = tensor_scales_of(tensor_scale);
  made->channel_scales = channel_scales_of(channel_scales);
  check_scales(*made);
  check_zeros(*made);
  check_hadamard(hadamard, sign_seed);
  if (hadamard) made->hadamard = {*hadamard, sign_seed};
  new (self) FormatHandle{std::move(made)};
}

std::optional<std::string> zeros_name(const FormatHandle& f) {
  if (f.format->zeros == Zeros::none) return {};
  return zero_names[static_cast<size_t>(f.format->zeros)];
}
std::optional<std::string> scale_name(const FormatHandle& f) {
  const std::optional<DType> dtype = f.format->scale_dtype;
  if (!dtype) return {};
  return *dtype == DType::invalid ? "none" : name(*dtype);
}
std::optional<int32_t> granularity(const FormatHandle& f) { return f.format->granularity; }
std::optional<int32_t> hadamard_block(const FormatHandle& f) {
  const int32_t block = f.format->hadamard.block;
  if (block == 0) return {};
  return block;
}
nb::object tensor_scale(const FormatHandle& f) {
  const std::vector<float>& scales = f.format->tensor_scales;
  if (scales.empty()) return nb::none();
  return scales.size() == 1 ? nb::cast(scales.front()) : nb::cast(scales);
}
nb::object channel_scales(const FormatHandle& f) {
  const Array& scales = f.format->channel_scales;
  return scales.data != nullptr ? scales.owner : nb::none();
}

/// The constructor's arguments that were given.
nb::dict state_of(const FormatHandle& f) {
  nb::dict state;
  const auto put = [&state](const char* argument, const auto& value) {
    const nb::object object = nb::cast(value);
    if (!object.is_none()) state[argument] = object;
  };
  put("dtype", name(f.format->dtype));
  put("scale_dtype", scale_name(f));
  put("granularity", granularity(f));
  put("zeros", zeros_name(f));
  put("hadamard", hadamard_block(f));
  if (f.format->hadamard.sign_seed != 0) put("sign_seed", f.format->hadamard.sign_seed);
  put("channel_scales", channel_scales(f));
  put("tensor_scale", tensor_scale(f));
  return state;
}

nb::object replaced(nb::handle_t<FormatHandle> self, const nb::kwargs& changes) {
  nb::dict state = state_of(nb::cast<const FormatHandle&>(self));
  state.update(changes);
  return self.type()(**state);
}

/// Of one layer where something is of each.
FormatHandle of_layer(const FormatHandle& f, int64_t layer) {
  const Format& all = *f.format;
  const bool has_tensor_scales = all.tensor_scales.size() > 1,
             has_rows = all.channel_scales.ndim == 3;
  if (!has_tensor_scales && !has_rows) return f;
  const auto expect = [layer](const char* name, int64_t layers) {
    if (layer < 0 || layer >= layers)
      refuse_argument("layer: expected less than the {} of {}, got {}", layers, name, layer);
  };
  auto made = std::make_shared<Format>(all);
  if (has_tensor_scales) {
    expect("tensor_scale", static_cast<int64_t>(all.tensor_scales.size()));
    made->tensor_scales = {all.tensor_scales[static_cast<size_t>(layer)]};
  }
  if (has_rows) {
    expect("channel_scales", all.channel_scales.extent[0]);
    made->channel_scales = channel_scales_of(all.channel_scales.owner[nb::int_(layer)]);
  }
  return {std::move(made)};
}

std::string representation(const FormatHandle& f) {
  std::string text;
  for (const auto& [argument, value] : state_of(f)) {
    const auto words = nb::cast<std::string>(argument);
    text += text.empty() ? "Format(" : ", " + words + "=";
    text += words == "channel_scales" ? "..." : nb::cast<std::string>(nb::repr(value));
  }
  return text + ")";
}

}  // namespace

DType Format::scales() const {
  if (scale_dtype) return *scale_dtype;
  if (zeros == Zeros::in_scale || bit_width(dtype) == 8) return DType::f32;
  return detail::is_packed(dtype) ? DType::f16 : DType::invalid;
}

void Format::put(KVShape& shape, const char* name) const {
  shape.dtype = dtype;
  shape.scale_dtype = scales();
  shape.quantization_granularity =
      granularity.value_or(detail::is_packed(dtype) ? usual_granule : 0);
  shape.zeros = zeros;
  shape.hadamard = hadamard;
  if (hadamard.block != 0 && shape.head_size % hadamard.block != 0)
    refuse_argument("{}: hadamard is {}, expected a divisor of the head_size {}", name,
                    hadamard.block, shape.head_size);
}

void Format::put(PagedKVView& view, const char* name, int64_t layer, int64_t layers) const {
  view.hadamard = hadamard;
  if (hadamard.block != 0 && view.head_size % hadamard.block != 0)
    refuse_argument("{}: hadamard is {}, expected a divisor of the head_size {}", name,
                    hadamard.block, view.head_size);
  if (!tensor_scales.empty()) {
    const auto given = static_cast<int64_t>(tensor_scales.size());
    if (given != 1 && given != layers)
      refuse_argument("{}: tensor_scale has {} numbers, expected 1 or one for each of {} layers",
                      name, given, layers);
    view.scales.tensor_scale = &tensor_scales[given == 1 ? 0 : static_cast<size_t>(layer)];
  }
  if (channel_scales.data == nullptr) return;
  const Array& a = channel_scales;
  const int64_t plane = int64_t{view.num_heads} * view.head_size;
  const bool has_layers = a.ndim == 3;
  if (a.extent[a.ndim - 2] != view.num_heads || a.extent[a.ndim - 1] != view.head_size ||
      (has_layers && a.extent[0] != layers))
    refuse_argument("{}: channel_scales: expected f32[{}, {}], or {} of that, got {}", name,
                    view.num_heads, view.head_size, layers, a.description());
  view.has_channel_scales = true;
  view.channel_scales = static_cast<const float*>(a.data) + (has_layers ? layer * plane : 0);
}

SharedFormat format_of(nb::handle object, const char* name, const ScaleWords& words) {
  if (is_format(object)) return nb::cast<const FormatHandle&>(object).format;
  auto made = std::make_shared<Format>();
  made->dtype = dtype_of(object, name);
  made->scale_dtype = scale_dtype_of(words.dtype);
  made->granularity = words.granularity;
  check_scales(*made);
  return made;
}

FormatPair formats_of(nb::handle dtype, nb::handle v_dtype, bool has_value,
                      const ScaleWords& words) {
  const bool is_said = is_format(dtype) && (v_dtype.is_none() || is_format(v_dtype));
  if (is_said && !words.dtype.is_none())
    refuse_argument("scale_dtype: given beside a Format, which says it");
  if (is_said && words.granularity)
    refuse_argument("granularity: given beside a Format, which says it");
  FormatPair formats{format_of(dtype, "dtype", words), nullptr};
  if (has_value && v_dtype.is_none() && formats.key->channel_scales.data != nullptr)
    refuse_argument("v_dtype: expected V's own, for channel_scales of dtype are K's, got None");
  formats.value = v_dtype.is_none() ? formats.key : format_of(v_dtype, "v_dtype", words);
  return formats;
}

void bind_format(nb::module_& m) {
  const auto none = nb::none();
  nb::class_<FormatHandle>(m, "Format",
                           "How the rows of K, or of V, are stored: a dtype, the scales beside it, "
                           "and how rows are turned before they are quantised.")
      .def("__init__", &make_format, nb::arg("dtype"), nb::kw_only(),
           nb::arg("scale_dtype").none() = none, nb::arg("granularity").none() = none,
           nb::arg("zeros").none() = none, nb::arg("hadamard").none() = none,
           nb::arg("sign_seed") = 0, nb::arg("channel_scales").none() = none,
           nb::arg("tensor_scale").none() = none,
           R"(Stands where a dtype is asked for: KVCache(..., dtype=Format("i4", hadamard=128)).

dtype: "f32", "bf16", "f16", "f8_e4m3", "f8_e5m2", "i8"; of four bits "i4", "u4", "f4_e2m1", whose
    even elements are in the low halves of bytes, and "i4_halves", "u4_halves", in which byte i of
    16 has elements i and i + 16 of 32; or a block format that `Pages` names.
scale_dtype: of the scales, "f32", "f16", "bf16", "f8_e8m0", "f8_e4m3", or "none". None: f32 beside
    8 bits, f16 beside four, f32 with zeros="in_scale". granularity: elements that share a scale;
    None: 32 of four bits, a head of others. The last of a head may be fewer.
zeros: of u4, what stands beside each scale: "patterns", a byte of 0 to 15 that stands for 0;
    "minimum", a number of the scales' dtype that is added; "in_scale": such a pattern is the last
    four bits of the scale. None: 8 stands for 0.
hadamard: rows are multiplied by the normalised Hadamard matrix in blocks of so many elements, a
    power of two from 16 to 512 that divides the head, before they are quantised; attention turns
    queries likewise and outputs back. sign_seed: with signs by PyTorch's coins of a generator with
    that seed; 0: none.
channel_scales: f32 [heads, head_size], or [layers, heads, head_size], by which rows are divided
    first of all. It is read whenever the planes are: not copied.
tensor_scale: a second factor of all scales, or a list of one for each layer.

Raises Error for what cannot be.)")
      .def_prop_ro("dtype", [](const FormatHandle& f) { return name(f.format->dtype); })
      .def_prop_ro("scale_dtype", &scale_name, "As given.")
      .def_prop_ro("granularity", &granularity, "As given.")
      .def_prop_ro("zeros", &zeros_name)
      .def_prop_ro("hadamard", &hadamard_block)
      .def_prop_ro("sign_seed", [](const FormatHandle& f) { return f.format->hadamard.sign_seed; })
      .def_prop_ro("channel_scales", &channel_scales)
      .def_prop_ro("tensor_scale", &tensor_scale,
                   nb::sig("def tensor_scale(self) -> float | list[float] | None"))
      .def("replace", &replaced, nb::sig("def replace(self, **changes: object) -> Format"),
           "The same but for these arguments of the constructor.")
      .def("of_layer", &of_layer, nb::arg("layer"),
           "The same with the channel scales and the tensor scale of one layer of several.")
      .def("__repr__", &representation)
      .def("__getstate__", &state_of)
      .def("__setstate__",
           [](nb::handle self, const nb::dict& state) { self.attr("__init__")(**state); });
}

}  // namespace folio::python
