/** Form state of a compute resource or template. */
import { type RequirementsDraft, readDraft, writeDraft } from "../../forms/requirements/drafts";
import type { Asset, AssetBody } from "./requests";

export interface AssetDraft {
  name: string;
  description: string;
  scope: string;
  workload_types: string[];
  requirements: RequirementsDraft;
}

export function readAsset(item?: Asset): AssetDraft {
  return {
    name: item?.name ?? "",
    description: item?.description ?? "",
    scope: item?.scope ?? "platform",
    workload_types: item?.workload_types ?? [],
    requirements: readDraft(item?.requirements as Record<string, unknown> | undefined),
  };
}

/** The request body. If no workload types are selected, all types are allowed. */
export function writeAsset(draft: AssetDraft, options: { hasTypes: boolean }): AssetBody {
  return {
    name: draft.name.trim(),
    description: draft.description,
    scope: draft.scope,
    requirements: writeDraft(draft.requirements),
    ...(options.hasTypes && {
      workload_types: draft.workload_types.length > 0 ? draft.workload_types : null,
    }),
  };
}
