"use strict";

// How numbers read. Null is what JSON has for NaN: it is always shown as n/a, never as 0.

const NOTHING = "n/a";

function real(value, digits) {
  if (value === null || value === undefined) return NOTHING;
  const text = value.toFixed(digits);
  return (Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−"));
}

function tokens(value) {
  if (value === null || value === undefined) return NOTHING;
  if (value < 10) return value.toFixed(2);
  if (value < 100) return value.toFixed(1);
  return Math.round(value).toLocaleString("en-US");
}

function percent(value, digits = 1) {
  return value === null || value === undefined ? NOTHING : (100 * value).toFixed(digits) + " %";
}

function three(value) {
  if (value === null || value === undefined) return NOTHING;
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value) || 1)));
  return real(value, Math.min(digits, 4));
}

function interval(low, high, digits = 2) {
  return low === null || high === null ? "" : `[${real(low, digits)}, ${real(high, digits)}]`;
}

function plusMinus(text, error, show) {
  return error === null || error === undefined || text === NOTHING ? text : `${text} ± ${show(error)}`;
}

// The finite values of nested lists
function finite(nested) {
  return nested.flat(Infinity).filter((value) => value !== null && value !== undefined);
}

// The smallest and the largest; spread over arguments, a large grid would overflow the stack
function extremes(values) {
  return values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
}

function quantile(values, share) {
  if (!values.length) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const place = share * (sorted.length - 1);
  const below = Math.floor(place);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
}

function mean(values) {
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
}

// An element with text: the only way that this page turns strings into markup
function element(tag, className = "", text = null) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== null) made.textContent = text;
  return made;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function colours(name) {
  return colour(name).split(",").map((part) => part.trim());
}
