import { expect, it } from "vitest";
import { type Capacity, type Offer, sumUp } from "./capacities";

function offer(fits_now: number | null, fields: Partial<Offer> = {}): Offer {
  return { name: "small", fits_now, more: false, message: "", ...fields } as Offer;
}

function sum(...offers: Offer[]) {
  const capacities = offers.map((one, at) => ({ cluster: `cluster/c${at}`, compute_resources: [one] }));
  return sumUp(capacities as unknown as Capacity[]).get("small");
}

it.each([
  ["of one cluster", [offer(2)], { fits_now: 2, more: false, message: "" }],
  ["of two clusters", [offer(2), offer(3, { more: true })], { fits_now: 5, more: true }],
  ["with one unknown", [offer(null, { message: "not reachable" }), offer(3)], { fits_now: 3, message: "" }],
  [
    "that are all unknown",
    [offer(null, { message: "not reachable" }), offer(null)],
    { fits_now: null, message: "not reachable" },
  ],
  [
    "that are all zero",
    [offer(0, { message: "too few GPUs" }), offer(0)],
    { fits_now: 0, message: "too few GPUs" },
  ],
])("adds up counts %s", (_, offers, total) => {
  expect(sum(...offers)).toMatchObject(total);
});

it("keeps the count of each cluster", () => {
  expect(sum(offer(2), offer(3))?.clusters.map(({ cluster, fits_now }) => [cluster, fits_now])).toEqual([
    ["cluster/c0", 2],
    ["cluster/c1", 3],
  ]);
});

it("computes the totals of a response only once", () => {
  const capacities: Capacity[] = [];
  expect(sumUp(capacities)).toBe(sumUp(capacities));
});
