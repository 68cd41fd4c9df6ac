import { Select } from "@mantine/core";
import { useAll } from "../../api/lists";
import { useFinding } from "../findings";

interface Props {
  among: Record<string, string>;
  value: string;
  onChange: (name: string) => void;
}

/** The compute resource to begin with. One that is out of sight can stay chosen. */
export function ProfileSelect({ among, value, onChange }: Props) {
  const finding = useFinding();
  const names = (useAll("/api/v1/compute-resources", among).data ?? []).map((item) => item.name);
  return (
    <Select
      label="Compute resource"
      description="What it says wins over the values below"
      placeholder="none"
      data={value && !names.includes(value) ? [value, ...names] : names}
      value={value || null}
      onChange={(name) => onChange(name ?? "")}
      clearable
      searchable
      error={finding("profile")}
    />
  );
}
