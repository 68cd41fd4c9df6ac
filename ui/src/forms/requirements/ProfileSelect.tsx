import { Select } from "@mantine/core";
import { useAll } from "../../api/lists";
import { useFinding } from "../findings";

interface Props {
  filters: Record<string, string>;
  value: string;
  onChange: (name: string) => void;
}

/** Selects the base compute resource. Keeps the current selection even if the user cannot list it. */
export function ProfileSelect({ filters, value, onChange }: Props) {
  const finding = useFinding();
  const names = (useAll("/api/v1/compute-resources", filters).data ?? []).map((item) => item.name);
  return (
    <Select
      label="Compute resource"
      description="Overrides the values below"
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
