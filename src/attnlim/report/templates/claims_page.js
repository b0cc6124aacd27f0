// The table of claims as a file, and the theme; everything else is in the page as it stands.

onPress("#save-claims", () => {
  const names = ["text", "source", "predicted", "measured", "low", "high", "verdict", "reason"];
  saveCsv("claims.csv", names, data.claims.map((claim) => names.map((name) => claim[name])));
});
start(() => {});
