import { AssetTable } from "../assets/AssetTable";
import { COMPUTE_RESOURCES } from "../assets/kinds";
import { COLUMNS } from "./columns";

export default function ComputeResources() {
  return (
    <AssetTable
      kind={COMPUTE_RESOURCES}
      title="Compute resources"
      about="Named hardware presets for runs. Their values override what users enter."
      columns={COLUMNS}
      emptyState={{
        title: "No compute resources yet",
        hint: "Create presets such as '1 GPU, 64 GiB' that users can pick by name.",
      }}
    />
  );
}
