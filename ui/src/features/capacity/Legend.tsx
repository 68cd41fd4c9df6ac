import { Text } from "@mantine/core";
import classes from "./NodeMap.module.css";
import { STEP_NAMES } from "./shares";

export function Legend() {
  return (
    <div className={classes.legend}>
      <Text size="xs" c="dimmed">
        In use:
      </Text>
      {STEP_NAMES.map((name, step) => (
        <Text key={name} size="xs" component="span" className={classes.key}>
          <span className={classes.sample} data-step={step} />
          {name}
        </Text>
      ))}
      <Text size="xs" component="span" className={classes.key}>
        <span className={classes.sample} data-unavailable />
        cordoned or not ready
      </Text>
      <Text size="xs" component="span" className={classes.key}>
        <span className={classes.sample} data-none />
        no GPUs
      </Text>
    </div>
  );
}
