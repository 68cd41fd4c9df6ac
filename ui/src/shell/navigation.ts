/** Where one can go, in the order of the bar. */
import {
  IconBoxMultiple,
  IconCpu,
  IconHierarchy3,
  IconHistory,
  IconKey,
  IconLockSquare,
  IconSettings,
  IconShieldCheck,
} from "@tabler/icons-react";

export interface Destination {
  path: string;
  title: string;
  icon: typeof IconCpu;
  /** A page that belongs to it and is elsewhere. */
  also?: string;
}

export const NAVIGATION: { title: string; places: Destination[] }[] = [
  {
    title: "Offer",
    places: [
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
    title: "Control",
    places: [
      { path: "/organisation", title: "Organisation", icon: IconHierarchy3 },
      { path: "/policies", title: "Policies", icon: IconShieldCheck },
      { path: "/secrets", title: "Secrets", icon: IconLockSquare },
    ],
  },
  {
    title: "Platform",
    places: [
      { path: "/tokens", title: "Tokens", icon: IconKey },
      { path: "/audit", title: "Audit", icon: IconHistory },
      { path: "/settings", title: "Settings", icon: IconSettings },
    ],
  },
];
