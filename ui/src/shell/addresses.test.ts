import { expect, it } from "vitest";
import {
  capacityAddress,
  functionAddress,
  newRunAddress,
  policyAddress,
  runAddress,
  secretsAddress,
} from "./addresses";

it.each([
  [policyAddress("platform"), "/policies/platform/platform"],
  [policyAddress("department/a+b"), "/policies/department/a%2Bb"],
  [secretsAddress("a+b"), "/secrets/a%2Bb"],
  [runAddress("r1"), "/runs/r1"],
  [functionAddress("a+b", "train.v2+x"), "/functions/a%2Bb/train.v2%2Bx"],
  [capacityAddress("cluster/local"), "/capacity?cluster=cluster%2Flocal"],
  [newRunAddress({ from: "r1", mem: "200Mi" }), "/new/run?from=r1&mem=200Mi"],
  [newRunAddress({ project: "a+b", function: "f" }), "/new/run?project=a%2Bb&function=f"],
])("builds the URL %s", (address, expected) => {
  expect(address).toBe(expected);
});
