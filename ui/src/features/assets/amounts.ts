/** Resource amounts per pod, formatted for the compute resource and template tables. */
import { showByteQuantity } from "../../forms/quantities";
import type { Tree } from "../../forms/trees";
import type { Asset } from "./requests";

export function resources(item: Asset): Tree {
  return (item.requirements as Tree).resources ?? {};
}

/** GPU memory per device: 100% unless the pod requests a fraction. */
export function gpuMemory(item: Asset): string | undefined {
  const gpu: Tree | undefined = resources(item).gpu;
  if (!gpu || gpu.devices === 0) return undefined;
  if (gpu.mig) return `MIG ${gpu.mig}`;
  if (gpu.memory === undefined) return "100%";
  const { limit, request = limit } = typeof gpu.memory === "object" ? gpu.memory : { request: gpu.memory };
  return limit && limit !== request ? `${request} to ${limit}` : String(request);
}

export function memoryRequest(item: Asset): string | undefined {
  return showMemory(resources(item).mem?.requests);
}

export function memoryLimit(item: Asset): string | undefined {
  return showMemory(limit(resources(item).mem));
}

export function limit(amount: Tree | undefined): string | undefined {
  return amount?.limits === "unlimited" ? "Unlimited" : amount?.limits;
}

function showMemory(amount: string | undefined): string | undefined {
  return amount === undefined ? undefined : showByteQuantity(amount);
}
