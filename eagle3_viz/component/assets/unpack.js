// A packed trace is base64 of gzip of JSON: text that any page may carry.

export async function unpack(packed) {
  const binary = atob(packed);
  const bytes = new Uint8Array(binary.length); // filled by a loop: a callback for each takes tenfold
  for (let at = 0; at < binary.length; at += 1) bytes[at] = binary.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}
