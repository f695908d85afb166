// onnx is a model of one product C = A*B in ONNX's format (protocol buffers), of shape (m,k)*(k,n): NN, or NT and TN by Gemm.
export function onnx(trans, m, n, k) {
  const attribute = (name, value) => message(5, [text(1, name), number(3, value), number(20, 2)]); // an int
  const node = [text(1, "A"), text(1, "B"), text(2, "C"), text(4, trans === "NN" ? "MatMul" : "Gemm")];
  if (trans === "NT") node.push(attribute("transB", 1));
  if (trans === "TN") node.push(attribute("transA", 1));
  const graph = [
    message(1, node), text(2, "product"), tensor(11, "A", trans === "TN" ? [k, m] : [m, k]),
    tensor(11, "B", trans === "NT" ? [n, k] : [k, n]), tensor(12, "C", [m, n]),
  ];
  return new Uint8Array([number(1, 8), message(7, graph), message(8, [text(1, ""), number(2, 13)])].flat());
}

// tensor describes an input (field 11) or output (12) of float32.
const tensor = (field, name, shape) => message(field, [
  text(1, name), message(2, [message(1, [number(1, 1), message(2, shape.map((d) => message(1, [number(1, d)])))])]),
]);

const varint = (n) => (n < 128 ? [n] : [(n & 127) | 128, ...varint(Math.floor(n / 128))]);
const number = (field, n) => [...varint(field << 3), ...varint(n)];
const bytes = (field, b) => [...varint((field << 3) | 2), ...varint(b.length), ...b];
const message = (field, parts) => bytes(field, parts.flat());
const text = (field, s) => bytes(field, [...new TextEncoder().encode(s)]);
