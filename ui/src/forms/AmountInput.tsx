import { NativeSelect } from "@mantine/core";
import classes from "./AmountInput.module.css";
import { type Amount, type Unit, unitsFor } from "./quantities";
import { TextField } from "./TextField";

interface Props {
  label: string;
  /** The name of the amount in the unit's accessible label. Defaults to `label`. */
  of?: string;
  units: Unit[];
  value: Amount;
  onChange: (value: Amount) => void;
  path?: string;
  error?: string;
  /** Disables the unit selection, for units that another field sets. */
  isUnitFixed?: boolean;
}

/** A field for a number and its unit. */
export function AmountInput({ of, units, value, onChange, isUnitFixed, ...field }: Props) {
  return (
    <TextField
      {...field}
      value={value.number}
      inputMode="decimal"
      placeholder="not set"
      onChange={(number) => onChange({ ...value, number })}
      rightSectionWidth={112}
      rightSection={
        <NativeSelect
          aria-label={`Unit of ${of ?? field.label}`}
          data={unitsFor(units, value.unit)}
          value={value.unit}
          disabled={isUnitFixed}
          onChange={(event) => onChange({ ...value, unit: event.currentTarget.value })}
          variant="unstyled"
          rightSectionWidth={26}
          classNames={{ root: classes.unit, input: classes.select }}
        />
      }
    />
  );
}
