/** The entries of the navigation bar. */
import {
  IconBoxMultiple,
  IconClock,
  IconCode,
  IconCpu,
  IconGauge,
  IconHierarchy3,
  IconHistory,
  IconKey,
  IconLockSquare,
  IconPlayerPlay,
  IconSettings,
  IconShieldCheck,
} from "@tabler/icons-react";

export interface Destination {
  path: string;
  title: string;
  icon: typeof IconCpu;
  /** Another path for which this entry is highlighted. */
  also?: string;
}

export const NAVIGATION: { title: string; destinations: Destination[] }[] = [
  {
    title: "Workloads",
    destinations: [
      { path: "/runs", title: "Runs", icon: IconPlayerPlay, also: "/new/run" },
      { path: "/functions", title: "Functions", icon: IconCode },
      { path: "/schedules", title: "Schedules", icon: IconClock },
      { path: "/capacity", title: "Capacity", icon: IconGauge },
    ],
  },
  {
    title: "Resources",
    destinations: [
      {
        path: "/compute-resources",
        title: "Compute resources",
        icon: IconCpu,
        also: "/new/compute-resource",
      },
      { path: "/templates", title: "Templates", icon: IconBoxMultiple, also: "/new/template" },
    ],
  },
  {
    title: "Access",
    destinations: [
      { path: "/organization", title: "Organization", icon: IconHierarchy3 },
      { path: "/policies", title: "Policies", icon: IconShieldCheck },
      { path: "/secrets", title: "Secrets", icon: IconLockSquare },
    ],
  },
  {
    title: "Platform",
    destinations: [
      { path: "/tokens", title: "Tokens", icon: IconKey },
      { path: "/audit", title: "Audit log", icon: IconHistory },
      { path: "/settings", title: "Settings", icon: IconSettings },
    ],
  },
];
