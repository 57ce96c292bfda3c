// Packs the npm packages: one with the binary for each system of which DIST has an archive, and `tapline`, which depends on all of them.
//
//   node npm/pack.mjs DIST   writes DIST/npm/*.tgz
import { execFileSync } from "node:child_process";
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const SYSTEMS = {
  "x86_64-unknown-linux-musl": ["linux", "x64"],
  "aarch64-unknown-linux-musl": ["linux", "arm64"],
  "x86_64-apple-darwin": ["darwin", "x64"],
  "aarch64-apple-darwin": ["darwin", "arm64"],
};

const dist = process.argv[2];
const root = fileURLToPath(new URL("..", import.meta.url));
const common = JSON.parse(readFileSync(`${root}npm/package.json`, "utf8"));
const version = /^version = "(.*)"/m.exec(readFileSync(`${root}Cargo.toml`, "utf8"))[1];

function pack(about, fill) {
  const folder = `${root}target/npm/${about.name}`;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(`${folder}/bin`, { recursive: true });
  for (const licence of ["LICENSE-MIT", "LICENSE-APACHE"]) cpSync(root + licence, `${folder}/${licence}`);
  writeFileSync(`${folder}/package.json`, JSON.stringify({ version, files: ["bin", "LICENSE-*"], ...about }, null, 2) + "\n");
  fill(folder);
  chmodSync(`${folder}/bin/tapline`, 0o755);
  const words = ["pack", "--ignore-scripts", "--loglevel=error", "--pack-destination", `${dist}/npm`, folder];
  execFileSync("npm", words, { stdio: ["ignore", "inherit", "inherit"] });
}

mkdirSync(`${dist}/npm`, { recursive: true });
const optionalDependencies = {};
for (const [target, [os, cpu]] of Object.entries(SYSTEMS)) {
  const name = `tapline-${os}-${cpu}`;
  optionalDependencies[name] = version;
  const archive = `${dist}/tapline-${target}.tar.gz`;
  if (!existsSync(archive)) continue;
  const { license, author, homepage, repository, bugs } = common;
  const description = `The binary of tapline for ${os} on ${cpu}: install tapline instead`;
  pack({ name, description, license, author, homepage, repository, bugs, os: [os], cpu: [cpu] }, (folder) => {
    execFileSync("tar", ["-xzf", archive, "-C", `${folder}/bin`, "--strip-components=1", `tapline-${target}/tapline`]);
  });
}
pack({ ...common, optionalDependencies }, (folder) => {
  cpSync(`${root}npm/bin/tapline`, `${folder}/bin/tapline`);
  cpSync(`${root}npm/README.md`, `${folder}/README.md`);
});
