import { AssetTable } from "../assets/AssetTable";
import { COMPUTE_RESOURCES } from "../assets/kinds";
import { COLUMNS } from "./columns";

export default function ComputeResources() {
  return (
    <AssetTable
      kind={COMPUTE_RESOURCES}
      title="Compute resources"
      about="What runs can ask for by name. What a compute resource says wins over what a user asks."
      columns={COLUMNS}
      none={{
        title: "No compute resources yet",
        hint: "Name the compute that you offer, such as one GPU with 64 GiB of memory, and users choose it by its name.",
      }}
    />
  );
}
