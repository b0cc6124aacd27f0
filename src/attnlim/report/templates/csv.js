// A table as a file: written by the page itself, so that it works wherever the page went.

// names are the columns; rows are lists of numbers, texts and null, which is an empty field
function saveCsv(file, names, rows) {
  const field = (value) => (value === null || value === undefined ? "" : /[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
  const text = [names, ...rows].map((row) => row.map(field).join(",")).join("\n") + "\n";
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = file;
  link.click();
  URL.revokeObjectURL(link.href);
}
