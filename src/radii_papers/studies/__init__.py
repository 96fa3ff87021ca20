"""The studies of the papers, a module each; :data:`radii.studies.study.STUDIES` names them."""
